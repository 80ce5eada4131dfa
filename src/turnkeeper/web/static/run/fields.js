// A small form for a question whose answer has a simple schema: text, numbers, yes or no, one of a list.
import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";

const MOST_FIELDS = 12;
const SIMPLE = new Set(["string", "number", "integer", "boolean"]);

/** `[{name, title, hint, type, choices, isRequired}]`; null for a schema that wants more than this. */
export function fieldsOf(schema) {
  const entries = Object.entries(schema?.properties ?? {});
  if (!entries.length || entries.length > MOST_FIELDS) return null;
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = entries.map(([name, told]) => ({
    name,
    title: typeof told?.title === "string" ? told.title : name,
    hint: typeof told?.description === "string" ? told.description : "",
    type: told?.type ?? (Array.isArray(told?.enum) ? "string" : undefined),
    choices: Array.isArray(told?.enum) ? told.enum : null,
    isLong: told?.maxLength > 200 || told?.format === "multiline",
    first: told?.default,
    isRequired: required.has(name),
  }));
  return fields.every((field) => SIMPLE.has(field.type)) ? fields : null;
}

export const firstValues = (fields) =>
  Object.fromEntries(fields.map(({ name, type, first }) => [name, first ?? (type === "boolean" ? false : "")]));

function asValue({ type, choices }, text) {
  if (choices) return choices.find((choice) => String(choice) === String(text)) ?? text;
  return type === "number" || type === "integer" ? Number(text) : text;
}

/** What is sent: an object without the fields that were left empty. */
export function valuesOf(fields, texts) {
  const filled = fields.filter(({ name }) => texts[name] !== "" && texts[name] !== undefined);
  return Object.fromEntries(filled.map((field) => [field.name, asValue(field, texts[field.name])]));
}

function Control({ id, field, value, onChange }) {
  const common = { id, required: field.isRequired, "aria-describedby": field.hint ? `${id}-hint` : undefined };
  const change = (event) => onChange(event.currentTarget.value);
  if (field.choices) {
    return html`<select ...${common} value=${String(value)} onChange=${change}><option value=""></option>
      ${field.choices.map(String).map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select>`;
  }
  if (field.isLong) return html`<textarea ...${common} rows="3" value=${value} onInput=${change}></textarea>`;
  const isNumber = field.type === "number" || field.type === "integer";
  const step = field.type === "number" ? "any" : undefined;
  return html`<input ...${common} type=${isNumber ? "number" : "text"} step=${step} value=${value} onInput=${change} />`;
}

function Field({ id, field, value, onChange }) {
  const hint = field.hint && html`<span class="muted small" id=${`${id}-hint`}>${field.hint}</span>`;
  if (field.type === "boolean") {
    const change = (event) => onChange(event.currentTarget.checked);
    return html`<div class="field"><label class="row" for=${id}>
      <input id=${id} type="checkbox" checked=${Boolean(value)} onChange=${change} /> ${field.title}</label>
      ${hint}</div>`;
  }
  const note = !field.isRequired && html` <span class="muted">(${t("fields.optional")})</span>`;
  return html`<div class="field"><label for=${id}>${field.title}${note}</label>
    <${Control} id=${id} field=${field} value=${value} onChange=${onChange} />${hint}</div>`;
}

export function Fields({ fields, values, onChange }) {
  return html`<div class="fields">${fields.map(
    (field) => html`<${Field} key=${field.name} id=${`answer-${field.name}`} field=${field}
      value=${values[field.name] ?? ""} onChange=${(value) => onChange({ ...values, [field.name]: value })} />`,
  )}</div>`;
}
