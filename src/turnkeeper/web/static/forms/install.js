// Installs a skill from a zip: picked or dropped, with every problem named, and a way to replace one that is there.

import { announce } from "../lib/announce.js";
import { Button, Notice, Problem } from "../lib/parts.js";
import { html, useRef, useState } from "../lib/preact.js";
import { bytes, t } from "../lib/words.js";
import { DropZone } from "./files.js";
import { Problems } from "./findings.js";
import { send } from "./send.js";

export function Install({ onInstalled }) {
  const [state, setState] = useState({ phase: "idle" });
  const isBusy = useRef(false);

  async function install(file, replace = false) {
    if (isBusy.current) return;
    isBusy.current = true;
    setState({ phase: "sending", file, percent: 0 });
    const form = new FormData();
    form.append("file", file, file.name);
    const onProgress = (sent, total) =>
      setState((now) => ({ ...now, percent: total ? Math.floor((100 * sent) / total) : 0 }));
    try {
      const skill = await send(`/v1/skills${replace ? "?replace=true" : ""}`, form, onProgress);
      setState({ phase: "done", skill });
      announce(t("install.done", { name: skill.id, version: skill.version }));
      onInstalled(skill);
    } catch (error) {
      setState({ phase: "failed", file, error });
    }
    isBusy.current = false;
  }

  const isSending = state.phase === "sending";
  return html`<section class="card stack" aria-labelledby="install"><h2 id="install">${t("install.title")}</h2>
    <p class="muted">${t("install.help")}</p>
    <${DropZone} attributes=${{ id: "install-file", disabled: isSending }} accept=".zip,application/zip" label=${t("install.drop")}
      onFiles=${([file]) => install(file)} onFolder=${(name) => setState({ phase: "folder", name })} />
    <div aria-live="polite" class="stack"><${Outcome} state=${state} install=${install} /></div>
  </section>`;
}

function Outcome({ state, install }) {
  const { phase, file, skill, error, percent, name } = state;
  if (phase === "sending") return html`<${Sending} file=${file} percent=${percent} />`;
  if (phase === "folder") return html`<${Notice} kind="warning">${t("install.folder", { name })}<//>`;
  if (phase === "failed") return html`<${Refused} ...${{ error, file, install }} />`;
  if (phase !== "done") return null;
  const [page, start] = [`#/skills/${encodeURIComponent(skill.id)}`, `#/new?skill=${encodeURIComponent(skill.id)}`];
  return html`<${Notice} kind="info" title=${t("install.done", { name: skill.id, version: skill.version })}>
    <p class="row wrap"><a href=${start}>${t("skills.start")}</a><a href=${page}>${t("skills.details")}</a></p><//>`;
}

const Sending = ({ file, percent }) => html`<label class="field">
  <span>${t("install.sending", { name: file.name, size: bytes(file.size) })}</span>
  <progress max="100" value=${percent}>${percent} %</progress>
</label>`;

function Refused({ error, file, install }) {
  const { facts = {} } = error;
  if (facts.problems?.length)
    return html`<${Problems} title=${t("install.broken", { name: file.name })} problems=${facts.problems} />`;
  if (error.code !== "SKILL_VERSION_NOT_HIGHER") {
    return html`<${Problem} error=${error} retry=${error.status === 0 || error.status >= 500 ? () => install(file) : undefined} />`;
  }
  const versions = { installed: facts.installed_version ?? "?", version: facts.version ?? "?" };
  return html`<${Notice} kind="warning" title=${t("install.notHigher", versions)}>
    <p>${t("install.notHigher.text")}</p>
    <p><${Button} onClick=${() => install(file, true)}>${t("install.replace")}<//></p><//>`;
}
