// The fields that hold one value: text, number, yes or no, one of a few, JSON.

import { html, useLayoutEffect, useRef } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { control, Frame, idOf, FieldSet } from "./frame.js";
import { exampleOf } from "./hints.js";
import { parsed } from "./values.js";

const MOST_RADIOS = 4;
const LONGEST_RADIO = 40;

/** A text area that is as tall as its text. */
export function Growing({ value, onInput, rows = 1, class: more = "", ...rest }) {
  const area = useRef();
  useLayoutEffect(() => {
    const { style, offsetHeight, clientHeight } = area.current;
    style.height = "auto";
    style.height = `${area.current.scrollHeight + offsetHeight - clientHeight}px`;
  }, [value]);
  return html`<textarea ref=${area} class=${`growing ${more}`} rows=${rows} value=${value}
    onInput=${(event) => onInput(event.currentTarget.value)} ...${rest}></textarea>`;
}

export function Text({ node, draft, at, form, label, onChange }) {
  const given = { ...control(node, at, form), value: draft, placeholder: exampleOf(node) };
  const field = node.multiline
    ? html`<${Growing} ...${given} rows=${node.tall ? 4 : 1} onInput=${onChange} />`
    : html`<input ...${given} type=${node.type ?? "text"} autocomplete="off"
      onInput=${(event) => onChange(event.currentTarget.value)} />`;
  return html`<${Frame} node=${node} at=${at} form=${form} label=${label}>${field}
    ${node.rules.maxLength !== undefined && draft && html`<${Count} text=${draft} most=${node.rules.maxLength} />`}<//>`;
}

const Count = ({ text, most }) => html`<p class="length" aria-hidden="true">${[...text].length} / ${most}</p>`;

/** No `type="number"`: it hides what it cannot read, and changes under the scroll wheel. */
export function NumberField({ node, draft, at, form, label, onChange }) {
  return html`<${Frame} node=${node} at=${at} form=${form} label=${label}>
    <input ...${control(node, at, form)} class="short" type="text" autocomplete="off"
      inputmode=${node.whole ? "numeric" : "decimal"}
      placeholder=${exampleOf(node)} value=${draft} onInput=${(event) => onChange(event.currentTarget.value)} />
  <//>`;
}

/** A box to tick; three answers where nothing is said unless somebody says it. */
export function Truth({ node, draft, at, form, label, onChange }) {
  if (!node.required && node.default === undefined) {
    const options = [
      [null, t("form.unset")],
      [true, t("form.yes")],
      [false, t("form.no")],
    ];
    return html`<${Radios} ...${{ node, at, form, label, options, draft, onChange }} />`;
  }
  return html`<div class=${form.errors[at] ? "field wrong" : "field"}>
    <label class="tick"><input type="checkbox" ...${control(node, at, form)} aria-required=${undefined} checked=${draft === true}
      onChange=${(event) => onChange(event.currentTarget.checked)} /><span>${label ?? node.title}</span></label>
    <${Under} node=${node} at=${at} form=${form} />
  </div>`;
}

function Under({ node, at, form }) {
  const id = idOf(at);
  return html`${node.description && html`<div class="help" id=${`${id}-help`}><p>${node.description}</p></div>`}
    ${form.errors[at] && html`<p class="fault" id=${`${id}-error`}>${form.errors[at]}</p>`}`;
}

export function Choice({ node, draft, at, form, label, onChange }) {
  const options = node.options.map((option, index) => [String(index), option.label]);
  const canBeUnset = !node.required && node.default === undefined;
  const isShort = options.length <= MOST_RADIOS && options.every(([, text]) => text.length <= LONGEST_RADIO);
  if (isShort && !label) {
    const all = canBeUnset ? [["", t("form.unset")], ...options] : options;
    return html`<${Radios} ...${{ node, at, form, label, options: all, draft, onChange }} />`;
  }
  return html`<${Frame} node=${node} at=${at} form=${form} label=${label}>
    <select ...${control(node, at, form)} value=${draft} onChange=${(event) => onChange(event.currentTarget.value)}>
      ${(canBeUnset || draft === "") && html`<option value="">${canBeUnset ? t("form.unset") : t("form.choose")}</option>`}
      ${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
    </select>
  <//>`;
}

/** A box or a button to tick, with its words. */
function Tick({ text, at, form, ...rest }) {
  const touch = () => form.touch(at);
  return html`<label class="tick"><input disabled=${form.locked} onBlur=${touch} ...${rest} /><span>${text}</span></label>`;
}

function Radios({ node, at, form, label, options, draft, onChange }) {
  const common = { type: "radio", name: idOf(at), required: node.required, at, form };
  const radio = ([value, text]) =>
    html`<${Tick} key=${text} ...${common} text=${text} checked=${draft === value} onChange=${() => onChange(value)} />`;
  return html`<${FieldSet} node=${node} at=${at} form=${form} label=${label}>
    <div class="row options">${options.map(radio)}</div>
  <//>`;
}

/** Any number of a few. */
export function Choices({ node, draft, at, form, label, onChange }) {
  const without = (index) => draft.filter((each) => each !== index);
  const toggle = (index) => onChange(draft.includes(index) ? without(index) : [...draft, index]);
  const box = (option, index) => {
    const given = { at, form, text: option.label, checked: draft.includes(String(index)) };
    return html`<${Tick} key=${index} type="checkbox" ...${given} onChange=${() => toggle(String(index))} />`;
  };
  return html`<${FieldSet} node=${node} at=${at} form=${form} label=${label}>
    <div class="row options">${node.options.map(box)}</div>
  <//>`;
}

export function JsonBox({ node, draft, at, form, label, onChange, rows = 3 }) {
  const { value, error } = parsed(draft);
  const tidy = error || draft.trim() === "" ? draft : JSON.stringify(value, null, 2);
  return html`<${Frame} node=${node} at=${at} form=${form} label=${label}>
    <${Growing} ...${control(node, at, form)} class="mono" rows=${rows} spellcheck=${false} autocapitalize="off" autocomplete="off"
      placeholder=${exampleOf(node) ?? t("form.json.example")} value=${draft} onInput=${onChange} />
    ${tidy !== draft && html`<p><button type="button" class="link" disabled=${form.locked}
      onClick=${() => onChange(tidy)}>${t("form.json.tidy")}</button></p>`}
  <//>`;
}
