// Files that went into a run and came out of it, each with a link to take it away.
import { api } from "../lib/api.js";
import { Icon } from "../lib/icons.js";
import { may } from "../lib/me.js";
import { Fold } from "../lib/parts.js";
import { html, useEffect, useState } from "../lib/preact.js";
import { bytes, t } from "../lib/words.js";
import { isOver } from "./live.js";

const SHOWN = 20;

const address = (runId, path) => `/v1/jobs/${runId}/artifacts/${path.split("/").map(encodeURIComponent).join("/")}`;

/** Files in the workspace; read again whenever the run has changed its state. */
export function useArtifacts(run) {
  const [artifacts, setArtifacts] = useState([]);
  useEffect(() => {
    if (!run?.started_at || !may("read")) return undefined;
    const stop = new AbortController(); // an answer from before the change may come last
    const read = api.get(`/v1/jobs/${run.run_id}/artifacts`, undefined, { signal: stop.signal });
    read.then((body) => setArtifacts(body.artifacts), () => {});
    return () => stop.abort();
  }, [run?.run_id, run?.status, run?.attempt_number]);
  return artifacts;
}

/** Uploaded inputs as `[{path, name}]`; a list of files has several paths under one name. */
export function uploadsOf(run) {
  return Object.entries(run.files ?? {}).flatMap(([name, told]) =>
    [told].flat().filter((path) => typeof path === "string").map((path) => ({ name, path })),
  );
}

const isLink = (file) => file.kind === "link";

const about = ({ name, role, size, ...file }) =>
  [name ?? role, isLink(file) ? t("files.link") : size !== undefined && bytes(size)].filter(Boolean).join(" · ");

/** A link that an agent made is shown with where it leads; nobody goes there, so there is nothing to take away. */
const Name = ({ runId, file }) =>
  isLink(file)
    ? html`<span class="grow">${file.path} → <span class="muted">${file.target}</span></span>`
    : html`<a class="grow" href=${address(runId, file.path)} download=${file.path.split("/").pop()}>${file.path}</a>`;

function Files({ runId, files }) {
  return html`<ul class="file-list">${files.map(
    (file) => html`<li key=${file.path}><${Icon} name="file" />
      <${Name} runId=${runId} file=${file} />
      <span class="muted small nowrap">${about(file)}</span></li>`,
  )}</ul>`;
}

/** A few at once: the result that stands above hundreds of files would be out of sight. */
export function FileList({ runId, files }) {
  const rest = files.slice(SHOWN);
  return html`<${Files} runId=${runId} files=${files.slice(0, SHOWN)} />
    ${rest.length > 0 && html`<${Fold} summary=${t("files.more", { n: rest.length })}>
      ${() => html`<${Files} runId=${runId} files=${rest} />`}<//>`}`;
}

export function NoFiles({ run }) {
  return html`<p class="muted small">${t(isOver(run) ? "files.none" : "files.none.yet")}</p>`;
}
