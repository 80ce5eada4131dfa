// What one can do with a run as a whole: cancel it, run it again, take its outcome away.
import { api } from "../lib/api.js";
import { Icon } from "../lib/icons.js";
import { may, TO_START } from "../lib/me.js";
import { Button, Dialog, Problem } from "../lib/parts.js";
import { html, useState } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { keepFocus } from "./focus.js";
import { isOver } from "./live.js";

export const againAddress = (run) => `#/new?${new URLSearchParams({ skill: run.skill_id, from: run.run_id })}`;

function CancelDialog({ live, run, onClose }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const cancel = async () => {
    setBusy(true);
    try {
      await api.post(`/v1/jobs/${run.run_id}/cancel`);
      await live.refresh();
      onClose();
      setTimeout(keepFocus); // the button that opened this is gone
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${t("cancel.title")} onClose=${onClose}>
    <p>${t("cancel.what", { skill: run.skill_id })}</p>
    <${Problem} error=${error} />
    <div class="dialog-actions"><${Button} onClick=${onClose} autofocus>${t("cancel.keep")}<//>
      <${Button} kind="danger" busy=${busy} onClick=${cancel}>${t("cancel.do")}<//></div>
  <//>`;
}

/** What does no harm. On a phone there is room for it among the details only. */
export function Secondary({ run, onLog, class: more }) {
  if (!may("read")) return null;
  return html`<div class=${`actions ${more}`}>
    <${Button} class="quiet" onClick=${onLog}><${Icon} name="log" />${t("action.log")}<//>
    ${may(...TO_START) &&
    html`<a class="button quiet" href=${againAddress(run)}><${Icon} name="again" />${t("action.again")}</a>`}
    ${isOver(run) &&
    html`<a class="button quiet" href=${`/v1/jobs/${run.run_id}/bundle`} download=${`${run.run_id}.zip`}
      title=${t("action.bundle.what")}><${Icon} name="download" />${t("action.bundle")}</a>`}
  </div>`;
}

export function Cancel({ live, run }) {
  const [asks, setAsks] = useState(false);
  if (isOver(run) || !may("run")) return null;
  const name = t("action.cancel");
  return html`<div class="actions">
    <${Button} kind="danger" disabled=${Boolean(run.ending)} aria-label=${name} title=${name}
      onClick=${() => setAsks(true)}>
      <${Icon} name="stop" /><span class="wide-only">${name}</span><//>
    ${asks && html`<${CancelDialog} live=${live} run=${run} onClose=${() => setAsks(false)} />`}</div>`;
}
