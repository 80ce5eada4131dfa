// What stands around every field: its label, what it wants, and what is wrong with it, bound together for all readers.

import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { hintsOf } from "./hints.js";

/** The element of a place such as `input/topic`; without blanks, since ids are listed with blanks between them. */
export const idOf = (at) => `f-${encodeURIComponent(at).replace(/%/g, "_")}`;

const helpId = (at) => `${idOf(at)}-help`;
const errorId = (at) => `${idOf(at)}-error`;

const hasHelp = (node) => Boolean(node.description || hintsOf(node).length);

/** The ids of help and error, for `aria-describedby`. */
export function describedBy(node, at, form) {
  const ids = [hasHelp(node) && helpId(at), form.errors[at] && errorId(at)].filter(Boolean);
  return ids.length ? ids.join(" ") : undefined;
}

/** What every control is given; `form` is `{errors, locked, touch(at)}`. */
export function control(node, at, form) {
  return {
    id: idOf(at),
    "aria-describedby": describedBy(node, at, form),
    "aria-invalid": form.errors[at] ? "true" : undefined,
    "aria-required": node.required ? "true" : undefined,
    disabled: form.locked,
    onBlur: () => form.touch(at),
  };
}

/** The look of a title: the star of a required field is drawn, so that nobody hears or has to name it. */
const titleLook = (node, label) =>
  [label && "visually-hidden", node.required && node.kind !== "object" && "needed"].filter(Boolean).join(" ") ||
  undefined;

export function Help({ node, at }) {
  const hints = hintsOf(node).map((each) => t(each.key, each.values));
  if (!hasHelp(node)) return null;
  return html`<div class="help" id=${helpId(at)}>
    ${node.description && html`<p>${node.description}</p>`}
    ${hints.length > 0 && html`<p>${hints.join(t("form.hint.between"))}</p>`}
  </div>`;
}

export function Fault({ at, form }) {
  const text = form.errors[at];
  return text ? html`<p class="fault" id=${errorId(at)} data-fault=${at}>${text}</p>` : null;
}

const look = (at, form, more) => ["field", more, form.errors[at] && "wrong"].filter(Boolean).join(" ");

/** Around one control. `label` replaces the title where a row of a list has none to show. */
export function Frame({ node, at, form, label, children }) {
  return html`<div class=${look(at, form)}>
    <label for=${idOf(at)} class=${titleLook(node, label)}>${label ?? node.title}</label>
    ${!label && html`<${Help} node=${node} at=${at} />`}
    ${children}
    <${Fault} at=${at} form=${form} />
  </div>`;
}

/** Around several controls. */
export function FieldSet({ node, at, form, label, class: more, children }) {
  return html`<fieldset class=${look(at, form, more)} id=${idOf(at)} tabindex="-1" aria-describedby=${describedBy(node, at, form)}>
    <legend class=${titleLook(node, label)}>${label ?? node.title}</legend>
    ${!label && html`<${Help} node=${node} at=${at} />`}
    ${children}
    <${Fault} at=${at} form=${form} />
  </fieldset>`;
}
