// One line that always tells what is going on: the state, since when, signs of life, what it waits for, the deadline.
import { useNow } from "../lib/clock.js";
import { StatusBadge } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { clockTime, duration, hasWord, moment, t } from "../lib/words.js";
import { isOver } from "./live.js";

const SOON_SEC = 600;

const seconds = (iso, now) => (now - Date.parse(iso)) / 1000;

/** Why a queued run has not begun yet. */
export function waitingWords(run) {
  const key = `waiting.${run.waiting_for}`;
  const why = run.waiting_for && hasWord(key) ? t(key) : t("waiting.start");
  return run.queue_position ? `${t("waiting.place", { n: run.queue_position })} ${why}` : why;
}

/** What becomes of a question at its deadline. */
function fate(run, pending) {
  if (run.interactive_require_user_reply) return "status.then.ends";
  return pending?.kind === "permission" ? "status.then.refuses" : "status.then.decides";
}

function deadline({ run, pending }, now) {
  if (run.status === "waiting_user" && run.wait_deadline_at) {
    return t(fate(run, pending), { left: duration(-seconds(run.wait_deadline_at, now)) });
  }
  if (run.waiting_for === "upload" && run.upload_deadline_at) {
    return t("status.then.givenup", { left: duration(-seconds(run.upload_deadline_at, now)) });
  }
  return null;
}

/** A turn that has been silent for long, or for which time runs out, is worth a word. */
function limits(run, log, now) {
  const since = log.state?.name === "running" ? log.state.since : run.updated_at;
  const { idle_sec: idle, first_byte_sec: first, turn_sec: turn } = run.timeouts;
  const hasSpoken = log.sign && log.sign > since;
  const silent = seconds(hasSpoken ? log.sign : since, now);
  const limit = hasSpoken ? idle : first;
  if (silent > limit / 2) return t("status.silent", { limit: duration(limit) });
  const left = turn - seconds(since, now);
  return left < SOON_SEC && left < turn / 2 ? t("status.turn.left", { left: duration(left) }) : null;
}

function running({ run, log }, now) {
  const since = log.state?.name === "running" ? log.state.since : run.updated_at;
  const hasSpoken = log.sign && log.sign >= since;
  const sign = hasSpoken ? t("status.sign", { ago: duration(seconds(log.sign, now)) }) : t("status.nosign");
  return [
    t("status.turn", { engine: run.engine, n: run.attempt_number }),
    t("status.since", { time: duration(seconds(since, now)) }),
    sign,
    limits(run, log, now),
  ];
}

function over({ run: { started_at: from, finished_at: to } }) {
  return [from && t("status.took", { time: duration(seconds(from, Date.parse(to))) }), moment(to)];
}

/** The parts of the line; empty ones are left out. */
export function statusParts(view, now) {
  const { run } = view;
  if (isOver(run)) return over(view);
  if (run.ending) return [t(`ending.${run.ending.why}`), t("ending.since", { time: clockTime(run.ending.at) })];
  if (run.status === "running") return running(view, now);
  const since = t("status.since", { time: duration(seconds(run.updated_at, now)) });
  if (run.status === "queued") return [waitingWords(run), since, deadline(view, now)];
  const asks = t(view.pending?.kind === "permission" ? "status.asks.permission" : "status.asks");
  return [asks, since, deadline(view, now)];
}

function Link({ link }) {
  if (link === "over") return null;
  return html`<span class=${`link-state link-${link}`} data-test="link">${t(`link.${link}`)}</span>`;
}

/** The blanks are for those who listen. */
const dot = () => [" ", html`<span aria-hidden="true">·</span>`, " "];

export function StatusLine({ view }) {
  const now = useNow(isOver(view.run) ? null : 1000);
  const parts = statusParts(view, now).filter(Boolean);
  return html`<div class="status-line" data-test="status-line">
    <${StatusBadge} status=${view.run.status} />
    <p class="status-words">${parts.map((part, at) => html`${at > 0 && dot()}<span class="part">${part}</span>`)}</p>
    <${Link} link=${view.link} />
  </div>`;
}
