// One run: its conversation, the question it asks, how it is doing, and everything else about it.
import { announce } from "../lib/announce.js";
import { may } from "../lib/me.js";
import { Button, Empty, Loading, Problem } from "../lib/parts.js";
import { usePoll } from "../lib/poll.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/preact.js";
import { useStore } from "../lib/store.js";
import { setTitle } from "../lib/title.js";
import { t } from "../lib/words.js";
import { Cancel, Secondary } from "../run/actions.js";
import { AnswerBox } from "../run/answer.js";
import { Details } from "../run/details.js";
import { useArtifacts } from "../run/files.js";
import { isOver, LiveRun } from "../run/live.js";
import { LogDialog } from "../run/logview.js";
import { Outcome } from "../run/outcome.js";
import { StatusLine } from "../run/status.js";
import { Timeline } from "../run/timeline.js";
import { Upload } from "../run/upload.js";

function useLive(id) {
  const live = useMemo(() => new LiveRun(id), [id]);
  useEffect(() => {
    live.start();
    return () => live.stop();
  }, [live]);
  return live;
}

/** A place in the queue changes without an event of the run. */
function useQueueWatch(live, run) {
  const isQueued = run?.status === "queued";
  usePoll(async () => isQueued && live.refresh(), [isQueued], { seen: 3000, hidden: 60_000 });
}

function useTold(run) {
  const before = useRef(null);
  useEffect(() => {
    if (!run) return;
    setTitle(run.skill_id);
    const isNews = before.current && before.current !== run.status;
    before.current = run.status;
    // A question is announced itself, with its words.
    if (isNews && run.status !== "waiting_user") announce(t("announce.status", { status: t(`status.${run.status}`) }));
  }, [run?.status, run?.skill_id]);
}

function Working({ run }) {
  if (run.status !== "running" || run.ending) return null;
  return html`<p class="working"><span class="dots" aria-hidden="true"><i></i><i></i><i></i></span>
    ${t("run.working", { engine: run.engine })}</p>`;
}

function Missing({ error }) {
  if (error.status !== 404) return html`<${Problem} error=${error} />`;
  return html`<${Empty} title=${t("run.missing")} level=${1}><p>${t("run.missing.why")}</p>
    <a class="button" href="#/">${t("lost.back")}</a><//>`;
}

function Head({ live, run, showsDetails, onDetails, onLog }) {
  return html`<div class="run-head">
    <a class="icon-button back" href="#/" aria-label=${t("run.back")} title=${t("run.back")}>
      <span aria-hidden="true">←</span></a>
    <h1 class="grow">${run.skill_id}</h1>
    <${Secondary} class="wide-only" run=${run} onLog=${onLog} />
    <${Cancel} live=${live} run=${run} />
    <${Button} class="narrow-only" aria-expanded=${showsDetails} aria-controls="details" onClick=${onDetails}>
      ${t(showsDetails ? "run.conversation" : "run.details")}<//>
  </div>`;
}

export function RunPage({ id }) {
  const live = useLive(id);
  const view = useStore(live.view);
  const [showsDetails, setShowsDetails] = useState(false);
  const [showsLog, setShowsLog] = useState(false);
  const timeline = useRef();
  const { run, log } = view;
  const answers = useMemo(() => new Map(view.answers.map((entry) => [entry.interaction_id, entry])), [view.answers]);
  const artifacts = useArtifacts(run);
  const openLog = () => setShowsLog(true);
  useQueueWatch(live, run);
  useTold(run);
  if (view.error) return html`<${Missing} error=${view.error} />`;
  if (!run) return html`<${Loading} label=${view.link === "lost" ? t("link.lost") : undefined} />`;
  const tail = isOver(run) ? html`<${Outcome} run=${run} artifacts=${artifacts} />` : html`<${Working} run=${run} />`;
  return html`<div class=${showsDetails ? "run shows-details" : "run"}>
    <${Head} live=${live} run=${run} showsDetails=${showsDetails} onDetails=${() => setShowsDetails(!showsDetails)}
      onLog=${openLog} />
    <${StatusLine} view=${view} />
    <div class="run-body">
      <div class="run-talk">
        <${Timeline} ref=${timeline} log=${log} answers=${answers} openId=${view.pending?.interaction_id} tail=${tail}
          loadOlder=${() => live.loadOlder()} isLoadingOlder=${view.isLoadingOlder} />
        ${run.waiting_for === "upload" && may("run") && html`<${Upload} live=${live} run=${run} />`}
        <${AnswerBox} live=${live} view=${view} answers=${answers} onSent=${() => timeline.current?.toEnd()} />
      </div>
      <aside class="run-details" id="details" aria-label=${t("run.details")}>
        <${Secondary} class="small-only wrap" run=${run} onLog=${openLog} />
        <${Details} run=${run} answers=${answers} artifacts=${artifacts} />
      </aside>
    </div>
    ${showsLog && html`<${LogDialog} runId=${id} onClose=${() => setShowsLog(false)} />`}
  </div>`;
}
