// The place to answer: options as buttons, a small form, and always a box for one's own words.
import { announce } from "../lib/announce.js";
import { Icon } from "../lib/icons.js";
import { useKeys } from "../lib/keys.js";
import { may } from "../lib/me.js";
import { Button, Fold, Notice, Problem } from "../lib/parts.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/preact.js";
import { visible } from "../lib/visible.js";
import { t } from "../lib/words.js";
import { Asked } from "./asked.js";
import { forget, keepDraft, keepForm, leftOver, readDraft, readForm, strandedDraft } from "./drafts.js";
import { Fields, fieldsOf, firstValues, valuesOf } from "./fields.js";
import { keepFocus } from "./focus.js";
import { hasArrived, Late, lateTitle } from "./late.js";
import { PermissionFacts } from "./permission.js";
import { choicesOf, isTooLate, sendReply } from "./reply.js";
import { Share } from "./share.js";

/** Choices that nobody should make by one stray key: a number only goes there. */
const CAREFUL = new Set(["permission", "risk_ack"]);
const LOOKS = { allow_once: "primary", accept_risk: "danger", reject_once: "danger", reject_always: "danger" };

function Options({ choices, kind, busy, onChoose, buttons }) {
  if (!choices.length) return null;
  const look = (choice, at) => LOOKS[choice.kind] ?? (kind === "confirm" && at === 0 ? "primary" : undefined);
  const key = (at) => (at < 9 ? String(at + 1) : undefined);
  return html`<div class="choices" role="group" aria-label=${t("answer.options")} ref=${buttons}>${choices.map(
    (choice, at) => html`<${Button} key=${`${at}.${choice.label}`} kind=${look(choice, at)} busy=${busy?.value === choice.value}
      disabled=${busy !== null} aria-keyshortcuts=${key(at)} onClick=${() => onChoose(choice)}>
      ${key(at) && html`<kbd aria-hidden="true">${key(at)}</kbd>`}<span>${choice.label}</span><//>`,
  )}</div>`;
}

/** One line at first; it grows with what is written. */
function grow(box) {
  if (!box) return;
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight + 2, 220)}px`;
}

function OwnWords({ text, label, hint, busy, isOff, onInput, onSend }) {
  const box = useRef();
  useEffect(() => grow(box.current), [text]);
  const key = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) {
      event.preventDefault();
      onSend();
    }
  };
  return html`<form class="own-words" onSubmit=${(event) => (event.preventDefault(), onSend())}>
    <textarea ref=${box} rows="1" aria-label=${label} placeholder=${hint ?? label} value=${text} readonly=${isOff}
      aria-keyshortcuts="Control+Enter" onKeyDown=${key}
      onInput=${(event) => onInput(event.currentTarget.value)}></textarea>
    <${Button} kind="primary" type="submit" busy=${busy} disabled=${isOff || !text.trim()}
      aria-label=${t("answer.send")} title=${t("answer.send.key")}>
      <${Icon} name="send" /><span class="wide-only">${t("answer.send")}</span><//>
  </form>`;
}

/** The words as they stand in the box, which keeps them where storage is forbidden; else the fields. */
const unsent = (words, runId, id) => (words.trim() ? words : leftOver(runId, id));

/** Text of the open question, kept as a draft; what is left over when the question goes becomes `late`. */
export function useDraft(runId, pending) {
  const id = pending?.interaction_id ?? null;
  const [text, setText] = useState(() => (id === null ? "" : readDraft(runId, id)));
  const [late, setLate] = useState(() => strandedDraft(runId, id));
  const before = useRef(id);
  const latest = useRef(text);
  latest.current = text;
  useEffect(() => {
    if (before.current === id) return;
    const left = before.current === null ? "" : unsent(latest.current, runId, before.current);
    if (left) setLate({ id: before.current, text: left });
    before.current = id;
    setText(id === null ? "" : readDraft(runId, id));
  }, [id]);
  const write = (next) => {
    setText(next);
    if (id !== null) keepDraft(runId, id, next);
  };
  const dismiss = () => {
    forget(runId, late.id);
    setLate(null);
  };
  return { text, write, late, setLate, dismiss };
}

/** Whoever could not send their words goes on with them. */
const backToWords = () => document.querySelector(".own-words textarea")?.focus({ preventScroll: true });

function useSending({ live, runId, pending, draft, onSent }) {
  const [busy, setBusy] = useState(null);
  const [refused, setRefused] = useState(null);
  const id = pending?.interaction_id;
  const send = async (response, what) => {
    setBusy(what);
    setRefused(null);
    try {
      await sendReply(runId, id, response);
      draft.write("");
      keepForm(runId, id, null);
      live.answered(id);
      announce(t("answer.sent"));
      onSent();
    } catch (refusal) {
      if (isTooLate(refusal)) {
        const said = typeof response === "string" ? response : JSON.stringify(response);
        draft.setLate({ id, text: draft.text || said, facts: refusal.facts });
        draft.write("");
        keepForm(runId, id, null);
      } else {
        setRefused({ id, refusal });
        if (what === "words") setTimeout(backToWords);
      }
    }
    await live.refresh().catch(() => {});
    setBusy(null);
    setTimeout(keepFocus);
  };
  // A refusal that comes after the next question is not about that one.
  return { busy, problem: refused?.id === id ? refused?.refusal : null, send };
}

function FormAnswer({ runId, id, fields, busy, onSend }) {
  const [values, setValues] = useState(() => ({ ...firstValues(fields), ...readForm(runId, id) }));
  const change = (next) => {
    setValues(next);
    keepForm(runId, id, next);
  };
  const submit = (event) => {
    event.preventDefault();
    onSend(valuesOf(fields, values), "form");
  };
  return html`<form class="stack" onSubmit=${submit}>
    <${Fields} fields=${fields} values=${values} onChange=${change} />
    <div><${Button} kind="primary" type="submit" busy=${busy === "form"} disabled=${busy !== null}>
      ${t("answer.send")}<//></div>
  </form>`;
}

export function Ask({ runId, pending, draft, sending }) {
  const { busy, problem, send } = sending;
  const id = pending.interaction_id;
  const choices = choicesOf(pending);
  const fields = useMemo(() => fieldsOf(pending.requested_schema), [pending]);
  const buttons = useRef();
  const choose = (choice) => send(choice.value, choice);
  const byNumber = (n) => {
    const choice = choices[n - 1];
    if (!choice || busy) return false;
    if (CAREFUL.has(pending.kind)) buttons.current.children[n - 1].focus();
    else choose(choice);
    return true;
  };
  useKeys({ digit: byNumber });
  const label = t(choices.length || fields ? "answer.other" : "answer.own");
  const sendWords = () => draft.text.trim() && !busy && send(draft.text, "words");
  const words = html`<${OwnWords} text=${draft.text} label=${label} hint=${pending.ui_hints?.placeholder} busy=${busy === "words"}
    isOff=${busy !== null} onInput=${draft.write} onSend=${sendWords} />`;
  return html`${pending.kind === "permission" && html`<${PermissionFacts} pending=${pending} />`}
    ${pending.kind === "risk_ack" && html`<${Notice} kind="warning">${t("answer.risk")}<//>`}
    ${fields && html`<${FormAnswer} key=${id} runId=${runId} id=${id} fields=${fields} busy=${busy} onSend=${send} />`}
    <${Options} choices=${choices} kind=${pending.kind} busy=${busy} onChoose=${choose} buttons=${buttons} />
    ${fields ? html`<${Fold} summary=${t("answer.other")} open=${draft.text !== ""}>${words}<//>` : words}
    <${Problem} error=${problem} />
    ${problem?.status === 0 && html`<p class="muted small">${t("answer.unsure")}</p>`}`;
}

function titleOf({ kind, prompt, interaction_id: n }) {
  return kind === "permission" ? visible(prompt) : t("answer.question", { n });
}

export function AnswerBox({ live, view, answers, onSent }) {
  const { run } = view;
  const pending = run.ending ? null : view.pending;
  const draft = useDraft(run.run_id, pending);
  const sending = useSending({ live, runId: run.run_id, pending, draft, onSent });
  useEffect(() => {
    if (pending) announce(t("announce.question", { prompt: pending.prompt }));
  }, [pending?.interaction_id]);
  const isOurs = draft.late !== null && hasArrived(draft.late, answers);
  const late = isOurs ? null : draft.late;
  useEffect(() => {
    if (isOurs) draft.dismiss();
    if (!late) return;
    announce(lateTitle(late, answers));
    setTimeout(keepFocus);
  }, [late?.id, isOurs]);
  if (!pending && !late) return null;
  const reuse = () => {
    draft.write([draft.text, late.text].filter(Boolean).join("\n"));
    draft.dismiss();
    setTimeout(backToWords);
  };
  const close = () => {
    draft.dismiss();
    setTimeout(keepFocus);
  };
  const isRisk = pending?.kind === "risk_ack";
  return html`<section class=${isRisk ? "answer-box risk" : "answer-box"} aria-label=${t("answer.title")}>
    <${Late} late=${late} answers=${answers} canReuse=${pending !== null} onReuse=${reuse} onClose=${close} />
    ${pending &&
    html`<h2 class="small">${titleOf(pending)}</h2>
      ${may("answer")
        ? html`${!may("read") && html`<${Asked} pending=${pending} />`}
            <${Ask} runId=${run.run_id} pending=${pending} draft=${draft} sending=${sending} />
            <${Share} key=${pending.interaction_id} runId=${run.run_id} interactionId=${pending.interaction_id} />`
        : html`<p class="muted">${t("answer.notYours")}</p>`}`}
  </section>`;
}
