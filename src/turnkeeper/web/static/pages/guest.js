// The page of somebody who was given a link: one question, a place to answer it, and nothing around it.
import { announce, Announcer } from "../lib/announce.js";
import { api, reachable } from "../lib/api.js";
import { asGuest } from "../lib/guest.js";
import { CopyButton, Loading, Problem } from "../lib/parts.js";
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { useStore } from "../lib/store.js";
import { setTitle, useTabTitle } from "../lib/title.js";
import { hasWord, language, moment, t } from "../lib/words.js";
import { Ask, useDraft } from "../run/answer.js";
import { Asked } from "../run/asked.js";
import { forget } from "../run/drafts.js";

const ANSWER = "/v1/answer";
/** Drafts are kept by run; who has a link knows of none. */
const draftsOf = (link) => `link.${link.slice(-12)}`;

/** Why there is nothing to answer: a heading, and what to do. */
function reasonOf(problem) {
  if (problem.code === "LINK_EXPIRED") return [t("guest.expired"), t("guest.expired.what")];
  if (problem.code !== "LINK_DEAD") return [t("guest.unknown"), t("guest.unknown.what")];
  const { reason, at } = problem.facts;
  const key = `guest.dead.${reason}`;
  return [t("guest.dead"), hasWord(key) ? t(key, { at: at ? moment(at) : "" }) : problem.message];
}

const isOver = (problem) => problem && [401, 410].includes(problem.status);

function Card({ title, focus = false, children }) {
  const heading = useRef();
  useEffect(() => {
    setTitle(title);
    if (focus) heading.current.focus();
  }, [title, language()]);
  return html`<div class="card stack">
    <div class="signin-head"><img src="/static/icon.svg" alt="" /><h1 tabindex="-1" ref=${heading}>${title}</h1></div>
    ${children}</div>`;
}

function Over({ problem, text }) {
  const [title, what] = reasonOf(problem);
  return html`<${Card} title=${title} focus=${Boolean(text)}><p>${what}</p>
    ${text && html`<p class="muted small">${t("answer.late.kept")}</p><div class="kept pre">${text}</div>
      <div><${CopyButton} text=${text} /></div>`}<//>`;
}

function useSending(link, draft, { onSent, onOver }) {
  const [busy, setBusy] = useState(null);
  const [problem, setProblem] = useState(null);
  const send = async (response, what) => {
    setBusy(what);
    setProblem(null);
    try {
      await api.post(ANSWER, { response }, asGuest(link));
      announce(t("answer.sent"));
      onSent();
    } catch (refusal) {
      const said = typeof response === "string" ? response : JSON.stringify(response);
      if (isOver(refusal)) onOver(refusal, draft.text || said);
      else setProblem(refusal);
    }
    setBusy(null);
  };
  return { busy, problem, send };
}

function Question({ link, asked, onSent, onOver }) {
  const { pending } = asked;
  const drafts = draftsOf(link);
  const draft = useDraft(drafts, pending);
  const done = () => {
    forget(drafts, pending.interaction_id);
    onSent();
  };
  const sending = useSending(link, draft, { onSent: done, onOver });
  return html`<${Card} title=${t("guest.title")}>
    <p class="muted">${t("guest.who", { skill: asked.skill_id })}</p>
    <${Asked} pending=${pending} />
    <section class="stack" aria-label=${t("answer.title")}>
      <${Ask} runId=${drafts} pending=${pending} draft=${draft} sending=${sending} /></section>
    <p class="muted small">${t("guest.until", { at: moment(asked.expires_at) })}</p>
  <//>`;
}

function Thanks() {
  return html`<${Card} title=${t("guest.thanks")} focus><p>${t("guest.thanks.what")}</p><//>`;
}

function Content({ link }) {
  const [asked, setAsked] = useState(null);
  const [problem, setProblem] = useState(null);
  const [late, setLate] = useState("");
  const [isSent, setSent] = useState(false);
  const look = () => {
    setProblem(null);
    return api.get(ANSWER, undefined, asGuest(link)).then(setAsked, setProblem);
  };
  useEffect(() => void look(), [link]);
  const over = (refusal, text) => {
    setLate(text);
    setProblem(refusal);
  };
  if (isSent) return html`<${Thanks} />`;
  if (isOver(problem)) return html`<${Over} problem=${problem} text=${late} />`;
  if (problem) return html`<${Card} title=${t("guest.title")}><${Problem} error=${problem} retry=${look} /><//>`;
  if (!asked) return html`<${Loading} />`;
  return html`<${Question} link=${link} asked=${asked} onSent=${() => setSent(true)} onOver=${over} />`;
}

export function Guest({ link }) {
  const isReachable = useStore(reachable);
  useTabTitle(0);
  document.documentElement.lang = language() === "zh" ? "zh-CN" : "en";
  return html`<div class="frame">
    ${!isReachable && html`<div class="offline" role="status">${t("offline")}</div>`}
    <main class="main" id="main"><div class="signin guest"><${Content} link=${link} /></div></main>
    <${Announcer} />
  </div>`;
}
