// One run in the inbox: what it is, what it asks or how it ended, and buttons for simple answers.
import { announce } from "../lib/announce.js";
import { now } from "../lib/clock.js";
import { may } from "../lib/me.js";
import { Button, Problem, StatusBadge } from "../lib/parts.js";
import { html, useState } from "../lib/preact.js";
import { visible } from "../lib/visible.js";
import { ago, duration, moment, t } from "../lib/words.js";
import { lateTitle } from "../run/late.js";
import { choicesOf, isTooLate, sendReply } from "../run/reply.js";
import { waitingWords } from "../run/status.js";
import { gist } from "./gist.js";

const MOST_OPTIONS = 4;
const SHORT = 12;

/** Questions that want the whole page: a permission is about more than its title. */
const WHOLE = new Set(["permission", "risk_ack"]);

/** Only what one glance can decide; a form cannot be either. */
function quickChoices(pending) {
  if (!pending || WHOLE.has(pending.kind) || pending.requested_schema) return [];
  const choices = choicesOf(pending);
  return choices.length <= MOST_OPTIONS ? choices : [];
}

/** The buttons go with their question: the keyboard goes on at the next run that waits. */
function goOn(row) {
  focusOn(row.nextElementSibling ?? row.previousElementSibling ?? row);
}

const focusOn = (row) => row.querySelector(".run-link").focus({ preventScroll: true });

function QuickAnswer({ run, onAnswered, onLate }) {
  const [busy, setBusy] = useState(null);
  const [error, setError] = useState(null);
  const choices = quickChoices(run.pending);
  if (!choices.length || run.ending || !may("answer")) return null;
  const tellLate = ({ facts }, row) => {
    const late = { id: run.pending.interaction_id, text: "", facts, run };
    announce(lateTitle(late, new Map()));
    onLate(late);
    goOn(row);
  };
  const fail = (problem, row) => {
    setError(problem);
    setBusy(null);
    focusOn(row);
  };
  const answer = async (choice, row) => {
    setBusy(choice);
    setError(null);
    try {
      await sendReply(run.run_id, run.pending.interaction_id, choice.value);
      announce(t("answer.sent"));
      goOn(row); // it stays busy until its row goes: a second answer would be refused
    } catch (problem) {
      if (isTooLate(problem)) tellLate(problem, row);
      else fail(problem, row);
    }
    onAnswered();
  };
  return html`<div class="quick" role="group" aria-label=${t("answer.options")}>${choices.map(
      (choice) => html`<${Button} key=${choice.label} busy=${busy?.value === choice.value} disabled=${busy !== null}
        onClick=${(event) => answer(choice, event.currentTarget.closest("li"))}>${choice.label}<//>`,
    )}</div>
    ${error && html`<div class="quick-note"><${Problem} error=${error} /></div>`}`;
}

const questionOf = ({ kind, prompt }) => (kind === "permission" ? visible(prompt) : gist(prompt));

function Said({ run }) {
  if (run.ending && !run.finished_at) return html`<p class="run-said muted">${t(`ending.${run.ending.why}`)}</p>`;
  if (run.pending) return html`<p class="run-said" data-test="question">${questionOf(run.pending)}</p>`;
  if (run.error) return html`<p class="run-said error-line">${run.error.message} <code>${run.error.code}</code></p>`;
  if (run.status === "queued") return html`<p class="run-said muted">${waitingWords(run)}</p>`;
  return null;
}

/** Since when it is as it is; for what is over, how long it took as well. */
function times(run) {
  if (run.wait_deadline_at && run.status === "waiting_user") {
    const left = (Date.parse(run.wait_deadline_at) - now()) / 1000;
    return t("inbox.deadline", { left: duration(left) });
  }
  return ago(run.finished_at ?? run.updated_at);
}

export function Row({ run, ...heard }) {
  return html`<li data-run=${run.run_id}>
    <div class="run-line">
      <a class="run-link" href=${`#/runs/${run.run_id}`}>${run.skill_id}</a>
      <${StatusBadge} status=${run.status} />
      <span class="run-meta">${[run.engine, run.model].filter(Boolean).join(" · ")} · <span class="mono">
        ${run.run_id.slice(0, SHORT)}</span></span>
      <time class="run-times" datetime=${run.updated_at} title=${moment(run.updated_at)}>${times(run)}</time>
    </div>
    <${Said} run=${run} />
    <${QuickAnswer} key=${run.pending_interaction_id} run=${run} ...${heard} />
  </li>`;
}
