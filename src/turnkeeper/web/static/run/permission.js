// What an agent wants to do when it asks for permission.
import { Code } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { visible } from "../lib/visible.js";
import { hasWord, t } from "../lib/words.js";

const kindWords = (kind) => (hasWord(`permission.${kind}`) ? t(`permission.${kind}`) : kind);

function What({ value }) {
  if (value === undefined || value === null) return null;
  const { command, ...rest } = value;
  const isCommand = typeof command === "string" && !Object.keys(rest).length;
  const told = isCommand ? command : value;
  const text = typeof told === "string" ? told : JSON.stringify(told, null, 2);
  return html`<${Code} text=${visible(text)} label=${t("permission.what")} />`;
}

const placeOf = (told) => visible(String(told?.path ?? JSON.stringify(told)));

export function PermissionFacts({ pending }) {
  const context = pending.context ?? {};
  const places = Array.isArray(context.locations) ? context.locations.map(placeOf) : [];
  return html`<div class="permission stack small-gap">
    ${context.kind && html`<p><span class="badge plain">${kindWords(context.kind)}</span></p>`}
    <${What} value=${context.input ?? context.content} />
    ${places.length > 0 &&
    html`<ul class="plain-list mono small">${places.map((place) => html`<li key=${place}>${place}</li>`)}</ul>`}
    <p class="muted small">${t("permission.words")}</p>
  </div>`;
}
