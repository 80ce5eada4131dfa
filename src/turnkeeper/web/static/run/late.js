// Somebody was faster: who it was, what they said, and what you had typed, so that nothing is lost.
import { Button, CopyButton, Notice } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { clockTime, t } from "../lib/words.js";
import { answeredBy } from "./who.js";

/** What is known of the answer that won: from the history, else from the refusal itself. */
function winner({ id, facts = {} }, answers) {
  const entry = answers.get(id);
  return {
    mode: entry?.resolution_mode ?? facts.resolution_mode,
    by: entry?.resolved_by ?? facts.answered_by,
    at: entry?.resolved_at ?? facts.accepted_at,
    text: entry?.resolution_mode === "user_reply" ? entry.response : null,
  };
}

/** Our own words, whose receipt was lost on the way: then nobody was faster. */
export function hasArrived({ id, text }, answers) {
  const entry = answers.get(id);
  return entry?.resolution_mode === "user_reply" && entry.response.trim() === text.trim();
}

/** A run that was ended, or that went on by itself, had no answer. */
export function lateTitle(late, answers) {
  const isAnswered = winner(late, answers).mode === "user_reply";
  return t(isAnswered ? "answer.late" : "answer.late.gone", { n: late.id });
}

export function Late({ late, answers, canReuse, onReuse, onClose, children }) {
  if (!late) return null;
  const { mode, by, at, text } = winner(late, answers);
  return html`<div data-test="late"><${Notice} kind="warning" title=${lateTitle(late, answers)}>
    <div class="stack small-gap">
      ${children && html`<p>${children}</p>`}
      ${mode && html`<p>${answeredBy(mode, by)}${at && ` · ${clockTime(at)}`}${text && html`: <q>${text}</q>`}</p>`}
      ${late.text && html`<p class="muted small">${t("answer.late.kept")}</p><div class="kept pre">${late.text}</div>`}
      <div class="row wrap">
        ${late.text && html`<${CopyButton} text=${late.text} />`}
        ${late.text && canReuse && html`<${Button} onClick=${onReuse}>${t("answer.late.reuse")}<//>`}
        <${Button} onClick=${onClose}>${t("answer.late.close")}<//>
      </div>
    </div>
  <//></div>`;
}
