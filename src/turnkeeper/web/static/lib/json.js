// JSON text in colours: a list of pieces that Preact draws as text, never as markup.
import { html } from "./preact.js";

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MOST = 40_000;

function look(found) {
  if (found[2] !== undefined) return "json-name";
  if (found[1] !== undefined) return "json-text";
  return "json-value";
}

/** Long texts stay plain: thousands of coloured pieces would make the page slow. */
export function colored(text) {
  if (text.length > MOST) return text;
  const pieces = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    const piece = found[1] ?? found[0];
    pieces.push(text.slice(at, found.index), html`<span class=${look(found)}>${piece}</span>`);
    at = found.index + piece.length;
  }
  pieces.push(text.slice(at));
  return pieces;
}
