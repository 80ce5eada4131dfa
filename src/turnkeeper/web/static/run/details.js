// Everything about a run that is not its conversation: facts, files, tokens, answers, warnings.
import { CopyButton, Fold } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { hasWord, moment, number, t } from "../lib/words.js";
import { FileList, NoFiles, uploadsOf } from "./files.js";
import { answeredBy } from "./who.js";

function Facts({ entries }) {
  const known = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">${known.map(([key, value]) => html`<dt>${t(key)}</dt><dd>${value}</dd>`)}</dl>`;
}

const word = (key, name) => (hasWord(`${key}.${name}`) ? t(`${key}.${name}`) : name);

function About({ run }) {
  const turns = run.max_attempt ? `${run.attempt_number} / ${run.max_attempt}` : String(run.attempt_number);
  const { kind, reason } = run.interactive_profile;
  const profile = html`<span title=${reason}>${word("profile", kind)}</span>`;
  const id = html`<span class="row small-gap"><span class="mono">${run.run_id}</span>
    <${CopyButton} text=${run.run_id} /></span>`;
  const skill = html`<a href=${`#/skills/${encodeURIComponent(run.skill_id)}`}>${run.skill_id}</a> ${run.skill_version}`;
  return html`<${Facts} entries=${[
    ["fact.skill", skill],
    ["fact.engine", run.engine],
    ["fact.model", run.model],
    ["fact.mode", word("mode", run.execution_mode)],
    ["fact.profile", run.execution_mode === "interactive" ? profile : null],
    ["fact.permissions", word("permissions", run.permissions)],
    ["fact.sandbox", run.sandbox && word("sandbox", run.sandbox)],
    ["fact.turns", turns],
    ["fact.created", moment(run.created_at)],
    ["fact.started", run.started_at && moment(run.started_at)],
    ["fact.finished", run.finished_at && moment(run.finished_at)],
    ["fact.recovery", run.recovery && `${word("note", run.recovery.trigger)} (${moment(run.recovery.at)})`],
    ["fact.id", id],
  ]} />`;
}

function Usage({ usage }) {
  const entries = Object.entries(usage ?? {});
  if (!entries.length) return html`<p class="muted small">${t("usage.none")}</p>`;
  return html`<dl class="facts">
    ${entries.map(([name, n]) => html`<dt>${word("usage", name)}</dt><dd>${number(n)}</dd>`)}</dl>`;
}

function Answered({ entry }) {
  const by = entry.resolution_mode ? answeredBy(entry.resolution_mode, entry.resolved_by) : t("history.open");
  return html`<li><p class="history-ask"><span class="muted">${entry.interaction_id}.</span> ${entry.prompt}</p>
    ${entry.resolution_mode === "user_reply" && html`<p class="history-said pre">${entry.response}</p>`}
    <p class="muted small">${by}${entry.resolved_at && ` · ${moment(entry.resolved_at)}`}</p></li>`;
}

function Section({ title, open, children }) {
  return html`<${Fold} class="section" summary=${html`<h3>${title}</h3>`} open=${open}>${children}<//>`;
}

function Files({ run, files }) {
  return files.length ? html`<${FileList} runId=${run.run_id} files=${files} />` : html`<${NoFiles} run=${run} />`;
}

const Warnings = ({ warnings }) => html`<ul class="warnings">
  ${warnings.map((each) => html`<li>${each.message} <code>${each.code}</code></li>`)}</ul>`;

const History = ({ answers }) => html`<ol class="history">
  ${[...answers.values()].map((entry) => html`<${Answered} key=${entry.interaction_id} entry=${entry} />`)}</ol>`;

export function Details({ run, answers, artifacts }) {
  const uploads = uploadsOf(run);
  return html`<h2 class="visually-hidden">${t("run.details")}</h2>
    <${Section} title=${t("details.about")} open><${About} run=${run} /><//>
    ${uploads.length > 0 && html`<${Section} title=${t("files.in")} open><${Files} run=${run} files=${uploads} /><//>`}
    <${Section} title=${t("files.out")} open><${Files} run=${run} files=${artifacts} /><//>
    <${Section} title=${t("details.usage")} open><${Usage} usage=${run.usage} /><//>
    ${run.warnings.length > 0 &&
    html`<${Section} title=${t("details.warnings", { n: run.warnings.length })} open>
      <${Warnings} warnings=${run.warnings} /><//>`}
    ${answers.size > 0 &&
    html`<${Section} title=${t("details.history", { n: answers.size })}><${History} answers=${answers} /><//>`}`;
}
