// A part of the request that the skill's schema describes, `input` or `parameter`: as fields, or as the JSON they stand for.

import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { idOf } from "./frame.js";
import { Field } from "./field.js";
import { groupOf, valueOf } from "./request.js";
import { filesOf } from "./schema.js";
import { Extra, Fields } from "./several.js";
import { JsonBox } from "./simple.js";
import { parsed } from "./values.js";

/** A group as a schema wants it; null for one that has no field and takes nothing. */
export const isEmptyGroup = ({ node }) => node.kind === "object" && !node.open && node.fields.length === 0;

export function Group({ name, group, form, onChange }) {
  const { node } = group;
  const title = t(`new.${name}`);
  const isWhole = group.json === null && node.kind === "object"; // else the only field inside has this name
  return html`<section class="card stack form-group" aria-labelledby=${`group-${name}`} data-test=${`group-${name}`}>
    <div class="row wrap form-group-head"><h2 id=${`group-${name}`} class="grow">${title}</h2>
      <${Switch} ...${{ group, name, form, onChange }} /></div>
    ${node.description && html`<p class="muted">${node.description}</p>`}
    ${node.anything && html`<p class="muted">${t(`new.${name}.anything`)}</p>`}
    ${isWhole && form.errors[name] && html`<p class="fault" data-fault=${name}>${form.errors[name]}</p>`}
    <div id=${isWhole ? idOf(name) : undefined} tabindex="-1" class="stack">
      <${group.json === null ? AsFields : AsJson} ...${{ name, group, form, onChange }} />
    </div>
  </section>`;
}

function AsFields({ name, group, form, onChange }) {
  const put = (draft) => onChange({ ...group, draft });
  const given = { node: group.node, draft: group.draft, at: name, form, onChange: put };
  if (group.node.kind === "map") return html`<${Field} ...${given} label=${t(`new.${name}`)} />`;
  return html`<${Fields} ...${given} /><${Extra} ...${given} />`;
}

/** Files cannot be typed: their fields stay beside the JSON. */
function AsJson({ name, group, form, onChange }) {
  const files = filesOf(group.node);
  const box = { key: name, title: t("new.asJson.label"), description: "", rules: {}, kind: "json" };
  const given = { node: { ...group.node, fields: files }, draft: group.draft, at: name, form };
  return html`<${JsonBox} node=${box} draft=${group.json} at=${name} form=${form} rows=${6}
    onChange=${(json) => onChange({ ...group, json })} />
    ${files.length > 0 && html`<${Fields} ...${given} onChange=${(draft) => onChange({ ...group, draft })} />`}`;
}

function Switch({ group, name, form, onChange }) {
  const flip = () =>
    onChange(group.json === null ? { ...group, json: JSON.stringify(valueOf(group), null, 2) } : asFields(group));
  const isStuck = group.json !== null && !isReadable(group.json);
  return html`<button type="button" class="link" disabled=${form.locked || isStuck} onClick=${flip}
    aria-label=${t(group.json === null ? "new.asJson.of" : "new.asFields.of", { name: t(`new.${name}`) })}>
    ${t(group.json === null ? "new.asJson" : "new.asFields")}</button>`;
}

function isReadable(text) {
  const { value, error } = text.trim() === "" ? { value: {} } : parsed(text);
  return !error && value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Back to the fields, with the files that were chosen meanwhile; it stays JSON if the fields could not say it. */
function asFields(group) {
  const next = groupOf(group.node, valueOf(group));
  const kept = filesOf(group.node).map((field) => [field.key, group.draft.fields[field.key]]);
  if (!kept.length) return next;
  return { ...next, draft: { ...next.draft, fields: { ...next.draft.fields, ...Object.fromEntries(kept) } } };
}
