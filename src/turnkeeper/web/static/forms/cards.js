// A choice of one with room to explain each: engine, mode, permissions.

import { html } from "../lib/preact.js";
import { idOf } from "./frame.js";

/** Options are `{value, title, badge, text, reason, more}`; one with a `reason` cannot be chosen. */
export function Cards({ at, legend, options, value, form, onChange, children }) {
  return html`<fieldset class=${form.errors[at] ? "cards wrong" : "cards"} id=${idOf(at)} tabindex="-1"
    aria-describedby=${form.errors[at] ? `${idOf(at)}-error` : undefined}>
    <legend>${legend}</legend>
    <div class="card-grid">${options.map(
      (option) =>
        html`<${CardOption} key=${option.value} ...${{ at, option, form, onChange }} isChosen=${option.value === value} />`,
    )}</div>
    ${children}
    ${form.errors[at] && html`<p class="fault" id=${`${idOf(at)}-error`} data-fault=${at}>${form.errors[at]}</p>`}
  </fieldset>`;
}

export function CardOption({ at, option, form, isChosen = false, onChange }) {
  const isClosed = Boolean(option.reason);
  const id = `${idOf(at)}-${option.value}`;
  return html`<div class=${["card-option", isChosen && "chosen", isClosed && "closed"].filter(Boolean).join(" ")}>
    <label class="tick"><input type="radio" name=${idOf(at)} value=${option.value} checked=${isChosen}
      disabled=${form.locked || isClosed}
      aria-describedby=${`${id}-text`} onChange=${() => onChange(option.value)} />
      <span class="grow"><strong>${option.title}</strong> ${option.badge}</span></label>
    <div id=${`${id}-text`} class="card-text">
      ${option.text && html`<p>${option.text}</p>`}
      ${option.reason && html`<p class="why">${option.reason}</p>`}
    </div>
    ${option.more}
  </div>`;
}
