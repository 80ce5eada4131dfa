// What the linter says about a skill: in a word, and in full.

import { Notice } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { hasWord, t } from "../lib/words.js";

const count = (findings, severity) => findings.filter((each) => each.severity === severity).length;

export function LintChip({ findings }) {
  if (!findings) return null;
  const [errors, warnings] = [count(findings, "error"), count(findings, "warning")];
  if (errors) return html`<span class="chip bad">${t("lint.errors", { count: errors })}</span>`;
  if (warnings) return html`<span class="chip warn">${t("lint.warnings", { count: warnings })}</span>`;
  return html`<span class="chip good">${t("lint.good")}</span>`;
}

export function Findings({ findings }) {
  if (!findings.length) return html`<p class="muted">${t("lint.none")}</p>`;
  const item = (each, index) => html`<li key=${index}><${Finding} ...${each} /></li>`;
  return html`<ul class="plain-list stack findings">${findings.map(item)}</ul>`;
}

function Finding({ severity, code, where, message }) {
  const meaning = `lint.${code}`;
  return html`<div class=${`finding ${severity}`}>
    <p class="row wrap"><span class=${severity === "error" ? "chip bad" : "chip warn"}>${t(`lint.${severity}`)}</span>
      <code>${code}</code><span class="muted mono">${where}</span></p>
    <p>${message}</p>
    ${hasWord(meaning) && html`<p class="muted small">${t(meaning)}</p>`}
  </div>`;
}

/** Why a skill cannot be used. */
export function Problems({ title, problems }) {
  return html`<${Notice} kind="error" title=${title}><ul>${problems.map((each) => html`<li key=${each}>${each}</li>`)}</ul><//>`;
}
