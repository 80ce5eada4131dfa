// The fields that hold others: objects, lists with rows to add and remove, and maps whose names are free.

import { Button, IconButton } from "../lib/parts.js";
import { Icon } from "../lib/icons.js";
import { html, useLayoutEffect, useRef } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { below, mapPlace } from "./check.js";
import { Field } from "./field.js";
import { idOf, FieldSet } from "./frame.js";
import { added } from "./values.js";

/** The fields of an object, one below the other. */
export function Fields({ node, draft, at, form, onChange }) {
  const set = (key) => (next) => onChange({ ...draft, fields: { ...draft.fields, [key]: next } });
  return node.fields.map(
    (field) => html`<${Field} key=${field.key} node=${field} draft=${draft.fields[field.key]} at=${below(at, field.key)}
      form=${form} onChange=${set(field.key)} />`,
  );
}

/** A fieldset; one that may be left out is added first. */
export function ObjectField({ node, draft, at, form, label, onChange }) {
  const toggle = () => onChange({ ...draft, on: !draft.on });
  const words = draft.on ? "form.leaveOut" : "form.fillIn";
  return html`<${FieldSet} node=${node} at=${at} form=${form} label=${label} class="nested">
    ${draft.on && html`<div class="stack"><${Fields} ...${{ node, draft, at, form, onChange }} /></div>`}
    ${draft.on && html`<${Extra} ...${{ draft, form, onChange }} />`}
    ${!node.required && html`<p><${Button} disabled=${form.locked} onClick=${toggle}
      aria-label=${t(`${words}.of`, { name: node.title })}>${t(words)}<//></p>`}
  <//>`;
}

/** What an earlier request had and no field shows. */
export function Extra({ draft, form, onChange }) {
  const names = Object.keys(draft.extra);
  if (!names.length) return null;
  return html`<p class="row extra"><span class="grow muted">${t("form.extra")} <code>${JSON.stringify(draft.extra)}</code></span>
    <${Button} disabled=${form.locked} onClick=${() => onChange({ ...draft, extra: {} })}>${t("form.extra.drop")}<//></p>`;
}

/** After a row is added the focus goes there; after one is removed, to the button that adds. */
function useRows(node, draft, onChange) {
  const box = useRef();
  const wanted = useRef(null);
  useLayoutEffect(() => {
    wanted.current?.()?.focus();
    wanted.current = null;
  });
  const last = () => [...box.current.querySelectorAll(".rows > li")].at(-1)?.querySelector("input, textarea, select");
  return {
    box,
    add() {
      wanted.current = last;
      onChange(added(node, draft));
    },
    remove(id) {
      wanted.current = () => box.current.querySelector(".add-row");
      onChange(draft.filter((row) => row.id !== id));
    },
    put: (id, part) => onChange(draft.map((row) => (row.id === id ? { ...row, ...part } : row))),
  };
}

function AddRow({ node, form, add, isFull }) {
  const label = t("form.add.to", { name: node.title || t("form.field") });
  return html`<p><${Button} class="add-row" disabled=${form.locked || isFull} onClick=${add} aria-label=${label}>
    <${Icon} name="plus" />${t("form.add")}<//></p>`;
}

const RemoveRow = ({ form, name, remove }) =>
  html`<${IconButton} icon="close" label=${t("form.remove", { name })} disabled=${form.locked} onClick=${remove} />`;

export function ListField({ node, draft, at, form, label, onChange }) {
  const { box, add, remove, put } = useRows(node, draft, onChange);
  const item = (row, index) => {
    const name = t("form.row", { name: node.title, number: index + 1 });
    const given = { node: node.item, draft: row.draft, at: below(at, index), form, label: name };
    return html`<li key=${row.id} class="row">
      <div class="grow"><${Field} ...${given} onChange=${(next) => put(row.id, { draft: next })} /></div>
      <${RemoveRow} form=${form} name=${name} remove=${() => remove(row.id)} />
    </li>`;
  };
  return html`<${FieldSet} node=${node} at=${at} form=${form} label=${label}>
    <div ref=${box} class="stack">
      ${draft.length > 0 && html`<ol class="rows">${draft.map(item)}</ol>`}
      <${AddRow} node=${node} form=${form} add=${add} isFull=${draft.length >= node.rules.maxItems} />
    </div>
  <//>`;
}

/** Names and values; the whole input of a skill that takes anything is one. */
export function MapField({ node, draft, at, form, label, onChange }) {
  const { box, add, remove, put } = useRows(node, draft, onChange);
  const entry = (row, index) => {
    const given = { node, row, form, at: mapPlace(at, draft, index), number: index + 1 };
    return html`<${MapRow} key=${row.id} ...${given} put=${(part) => put(row.id, part)} remove=${() => remove(row.id)} />`;
  };
  return html`<${FieldSet} node=${node} at=${at} form=${form} label=${label}>
    <div ref=${box} class="stack">
      ${draft.length > 0 && html`<ul class="rows">${draft.map(entry)}</ul>`}
      <${AddRow} node=${node} form=${form} add=${add} />
    </div>
  <//>`;
}

function MapRow({ node, row, form, at, number, put, remove }) {
  const name = row.name.trim() || String(number);
  const id = `${idOf(at)}-name-${row.id}`;
  const value = { node: node.value, draft: row.draft, at, form, label: t("form.map.value", { name }) };
  return html`<li class="row map-row">
    <div class="map-name field"><label for=${id} class="visually-hidden">${t("form.map.name", { number })}</label>
      <input id=${id} type="text" class="mono" placeholder=${t("form.map.name.hint")} autocomplete="off" autocapitalize="off"
        value=${row.name} disabled=${form.locked} onBlur=${() => form.touch(at)}
        onInput=${(event) => put({ name: event.currentTarget.value })} /></div>
    <div class="map-value grow"><${Field} ...${value} onChange=${(next) => put({ draft: next })} /></div>
    <${RemoveRow} form=${form} name=${name} remove=${remove} />
  </li>`;
}
