// The end of the form: the button that starts the run, how far the upload is, and what to do if it fails.

import { Button, Notice, Problem } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { useArrival, Uploading } from "./uploading.js";

export function SendBar({ sending, canStart }) {
  if (sending.phase === "uploading") return html`<${Uploading} ...${sending} />`;
  if (sending.phase === "stuck") return html`<${Stuck} ...${sending} />`;
  return html`<div class="row wrap actions send-bar">
    <${Button} type="submit" kind="primary" busy=${sending.phase === "creating"} disabled=${!canStart}>${t("new.start")}<//>
    <a class="button quiet" href="#/">${t("new.cancel")}</a>
  </div>`;
}

/** The run exists: trying again brings it its files, and makes no second one. */
function Stuck({ error, runId, giveUp }) {
  return html`<div class="card stack" data-test="upload-failed" tabindex="-1" ref=${useArrival()}>
    <${Notice} kind="warning" title=${t("new.stuck.title")}>
      ${error?.status === 0 && html`<p>${t("new.stuck.cut")}</p>`}<p>${t("new.stuck.text")}</p><//>
    ${error?.status > 0 && html`<${Problem} error=${error} />`}
    <div class="row wrap actions">
      <${Button} type="submit" kind="primary">${t("new.stuck.retry")}<//>
      <${Button} onClick=${giveUp}>${t("new.stuck.giveUp")}<//>
      <a class="button quiet" href=${`#/runs/${encodeURIComponent(runId)}`}>${t("new.stuck.open")}</a>
    </div>
  </div>`;
}
