// For a run that waits for its files: the same fields as in the form of a new run, without the rest of it.
import "../words/catalogue.js";
import { api } from "../lib/api.js";
import { Button, Notice, Problem } from "../lib/parts.js";
import { html, useState } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { faults } from "../forms/check.js";
import { place, places } from "../forms/errors.js";
import { useLoad } from "../forms/load.js";
import { partsOf } from "../forms/request.js";
import { describe, filesOf } from "../forms/schema.js";
import { Fields } from "../forms/several.js";
import { focusField } from "../forms/summary.js";
import { Uploading, useUpload } from "../forms/uploading.js";
import { blank } from "../forms/values.js";
import { keepFocus } from "./focus.js";

const AT = "input";

async function loadFiles(skillId, signal) {
  const { input } = await api.get(`/v1/skills/${encodeURIComponent(skillId)}/schemas`, undefined, { signal });
  const node = describe(input);
  return { ...node, fields: filesOf(node) };
}

/** What the service refused, at its field; what belongs to none is told below. */
function refusedAt(problem, node, draft) {
  const { placed, others } = place(problem.errors, places(node, draft, AT));
  const isAllPlaced = placed.length > 0 && !others.length;
  return { errors: Object.fromEntries(placed.map(({ at, text }) => [at, text])), problem: isAllPlaced ? null : problem };
}

function Files({ live, run, node }) {
  const [draft, setDraft] = useState(() => blank(node));
  const [refused, setRefused] = useState({ errors: {}, problem: null });
  const { isUploading, upload, ...progress } = useUpload();
  const refuse = (found) => {
    setRefused(found);
    const [first] = Object.keys(found.errors);
    setTimeout(() => (first ? focusField(first) : keepFocus()));
  };
  const send = async (event) => {
    event.preventDefault();
    if (isUploading) return;
    const missing = faults(node, draft, AT).map(({ at, key, values }) => [at, t(key, values)]);
    if (missing.length) return refuse({ errors: Object.fromEntries(missing), problem: null });
    setRefused({ errors: {}, problem: null });
    try {
      await upload(run.run_id, partsOf({ node, draft }));
    } catch (problem) {
      refuse(problem.name === "Problem" ? refusedAt(problem, node, draft) : { errors: {}, problem: null });
    }
    await live.refresh().catch(() => {});
    setTimeout(keepFocus);
  };
  const change = (next) => {
    setDraft(next);
    setRefused({ errors: {}, problem: null });
  };
  const form = { errors: refused.errors, locked: isUploading, filesLocked: isUploading, touch: () => {} };
  return html`<form class="stack" noValidate onSubmit=${send}>
    <${Fields} node=${node} draft=${draft} at=${AT} form=${form} onChange=${change} />
    <${Problem} error=${refused.problem} />
    ${refused.problem?.status === 0 && html`<p class="muted small">${t("new.stuck.cut")}</p>`}
    ${isUploading
      ? html`<${Uploading} ...${progress} />`
      : html`<div><${Button} kind="primary" type="submit">${t("upload.send")}<//></div>`}
  </form>`;
}

export function Upload({ live, run }) {
  const { data: node, error, reload } = useLoad((signal) => loadFiles(run.skill_id, signal), [run.skill_id]);
  return html`<section class="answer-box" aria-label=${t("upload.title")}>
    <${Notice} kind="info" title=${t("upload.title")}>${t("upload.what")}<//>
    <${Problem} error=${error} retry=${reload} />
    ${node && html`<${Files} live=${live} run=${run} node=${node} />`}
  </section>`;
}
