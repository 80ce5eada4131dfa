// Says something to people who listen to the page instead of looking at it.
import { html } from "./preact.js";
import { createStore, useStore } from "./store.js";

const TOGETHER_MS = 100;
const MOST = 300;
const said = createStore("");
let waiting = [];

/** Words of the same moment are told together, else the last would hide the others. Long ones are cut. */
export function announce(text) {
  waiting.push(text.length > MOST ? `${text.slice(0, MOST)}…` : text);
  if (waiting.length === 1) setTimeout(tell, TOGETHER_MS);
}

/** The same words twice are told twice: a blank at the end makes them new. */
function tell() {
  const text = waiting.join("\n");
  waiting = [];
  said.set(said.get() === text ? `${text} ` : text);
}

export function Announcer() {
  const words = useStore(said);
  return html`<div class="visually-hidden" role="status" aria-live="polite" data-test="announcer">${words}</div>`;
}
