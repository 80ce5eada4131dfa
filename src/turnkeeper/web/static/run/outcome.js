// How a run ended: its result and files, or what went wrong and what to do about it.
import { api } from "../lib/api.js";
import { Icon } from "../lib/icons.js";
import { may, TO_START } from "../lib/me.js";
import { Code, Fold, Json, Loading, Problem } from "../lib/parts.js";
import { html, useEffect, useState } from "../lib/preact.js";
import { duration, hasWord, t } from "../lib/words.js";
import { againAddress } from "./actions.js";
import { FileList } from "./files.js";

/** A skill without an output schema gives text; the artifacts beside it are listed below anyway. */
const isPlain = ({ text, artifacts: _, ...rest }) => typeof text === "string" && !Object.keys(rest).length;

function Result({ run }) {
  const [result, setResult] = useState(null);
  const [error, setError] = useState(null);
  const load = () => api.get(`/v1/jobs/${run.run_id}/result`).then((body) => setResult(body.result), setError);
  useEffect(() => void load(), [run.run_id]);
  if (error) return html`<${Problem} error=${error} retry=${load} />`;
  if (!result) return html`<${Loading} />`;
  const label = t("outcome.result");
  if (isPlain(result)) return html`<${Code} text=${result.text} copy label=${label} />`;
  return html`<${Json} value=${result} label=${label} />`;
}

function Failure({ run }) {
  const { code, message, retry_after: pause, evidence } = run.error;
  return html`<p>${message}</p>
    <p><code>${code}</code></p>
    ${hasWord(`fix.${code}`) && html`<p><strong>${t("outcome.todo")}</strong> ${t(`fix.${code}`)}</p>`}
    ${pause && html`<p>${t("outcome.pause", { time: duration(pause) })}</p>`}
    ${/^ENGINE_/.test(code) && html`<p><a href="#/engines">${t("outcome.engines")}</a></p>`}
    ${evidence && html`<${Fold} summary=${t("outcome.evidence")}><${Code} text=${evidence} copy /><//>`}
    ${run.candidate_result &&
    html`<${Fold} summary=${t("outcome.candidate")}><${Json} value=${run.candidate_result} /><//>`}`;
}

const Canceled = () => html`<p>${t("outcome.canceled")}</p>`;

const KINDS = { succeeded: ["check", Result], failed: ["error", Failure], canceled: ["stop", Canceled] };

export function Outcome({ run, artifacts }) {
  const [icon, Body] = KINDS[run.status];
  const isShown = run.status !== "succeeded" || may("read") || may("run");
  return html`<section class=${`outcome ${run.status}`} aria-label=${t("outcome.title")} data-test="outcome">
    <h2><${Icon} name=${icon} />${t(`outcome.${run.status}.title`)}</h2>
    ${isShown && html`<${Body} run=${run} />`}
    ${artifacts?.length > 0 && html`<h3>${t("files.out")}</h3><${FileList} runId=${run.run_id} files=${artifacts} />`}
    ${may(...TO_START) &&
    html`<p><a class="button" href=${againAddress(run)}><${Icon} name="again" />${t("action.again.long")}</a></p>`}
  </section>`;
}
