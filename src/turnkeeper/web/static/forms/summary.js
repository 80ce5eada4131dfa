// All errors of the form in one place, each a way to its field.

import { Notice } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { idOf } from "./frame.js";

const CONTROLS = "input:not(:disabled), textarea:not(:disabled), select:not(:disabled), button:not(:disabled)";

/** Opens what the field is folded into, and goes there. */
export function focusField(at) {
  const element = document.getElementById(idOf(at));
  if (!element) return;
  for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  const target = element.matches(CONTROLS) ? element : (element.querySelector(CONTROLS) ?? element);
  target.focus({ preventScroll: true });
  element.scrollIntoView({ block: "center" });
}

export function Summary({ errors, places }) {
  const count = Object.keys(errors).length;
  if (!count) return null;
  const shown = places.filter((place) => errors[place.at]);
  const way = ({ at, title }) => html`<button type="button" class="link" onClick=${() => focusField(at)}>${title}</button>`;
  return html`<${Notice} kind="error" title=${t("form.summary", { count })}>
    <ul data-test="error-summary">${shown.map((place) => html`<li key=${place.at}>${way(place)}: ${errors[place.at].text}</li>`)}</ul>
  <//>`;
}
