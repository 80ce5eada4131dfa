// A skill's schema for reading: a table, and the JSON itself in a fold.

import { Fold, Json } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { hasWord, t } from "../lib/words.js";
import { rowsOf } from "./rows.js";

const COLUMNS = ["field", "type", "about"];

export function SchemaView({ name, schema }) {
  const id = `schema-${name}`;
  const title = t(`skill.schema.${name}`);
  return html`<section class="card stack" aria-labelledby=${id}><h2 id=${id}>${title}</h2>
    ${schema ? html`<${Schema} ...${{ schema, id, title }} />` : html`<p class="muted">${t(`skill.schema.${name}.none`)}</p>`}
  </section>`;
}

function Schema({ schema, id, title }) {
  const rows = rowsOf(schema);
  return html`${schema.description && html`<p>${schema.description}</p>`}
    ${rows.length ? html`<${Rows} rows=${rows} id=${id} />` : html`<p class="muted">${t("skill.schema.noFields")}</p>`}
    <${Fold} summary=${t("skill.schema.json")}>${() => html`<${Json} value=${schema} label=${title} />`}<//>`;
}

/** A table where there is room; below that each row is a small card, so every cell brings its own heading. */
function Rows({ rows, id }) {
  return html`<table class="schema" aria-labelledby=${id}>
    <thead><tr>${COLUMNS.map((name) => html`<th key=${name} scope="col">${t(`skill.schema.${name}`)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<${Row} key=${row.path} row=${row} />`)}</tbody>
  </table>`;
}

const Row = ({ row }) => html`<tr>
  <th scope="row"><code>${row.path}</code>${row.required && html` <span class="chip">${t("form.required")}</span>`}</th>
  <td>${typeWord(row.type)}</td>
  <td><${About} row=${row} /></td></tr>`;

const typeWord = (type) => (hasWord(`type.${type}`) ? t(`type.${type}`) : t("type.list"));

function About({ row }) {
  const hints = row.hints.map((each) => t(each.key, each.values));
  const option = (text, index) => html`${index > 0 && ", "}<code>${text}</code>`;
  const given = html`<code>${JSON.stringify(row.default)}</code>`;
  return html`${row.description && html`<p>${row.description}</p>`}
    ${row.options.length > 0 && html`<p>${t("skill.schema.oneOf")} ${row.options.map(option)}</p>`}
    ${hints.length > 0 && html`<p class="muted">${hints.join(t("form.hint.between"))}</p>`}
    ${row.default !== undefined && html`<p class="muted">${t("skill.schema.default")} ${given}</p>`}`;
}
