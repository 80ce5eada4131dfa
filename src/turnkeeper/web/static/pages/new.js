// A new run: choose a skill, fill in what it wants, choose how it is played, and start it.

import "../words/catalogue.js";
import { api } from "../lib/api.js";
import { Loading, Problem } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { Problems } from "../forms/findings.js";
import { useLoad } from "../forms/load.js";
import { RunForm } from "../forms/runform.js";
import { SkillChoice } from "../forms/skillchoice.js";

const skillPath = (id) => `/v1/skills/${encodeURIComponent(id)}`;
const runPath = (id) => `/v1/jobs/${encodeURIComponent(id)}`;

export function NewRun({ query }) {
  const isChosen = query.skill || query.from;
  return html`<div class="page stack new-run">
    <h1>${t(query.from ? "new.again" : "new.title")}</h1>
    ${isChosen ? html`<${Chosen} key=${`${query.skill} ${query.from}`} ...${query} />` : html`<${Choosing} />`}
  </div>`;
}

function Choosing() {
  const { data, error, reload } = useLoad((signal) => api.get("/v1/skills", undefined, { signal }), []);
  if (error) return html`<${Problem} error=${error} retry=${reload} />`;
  return data ? html`<${SkillChoice} skills=${data.skills} />` : html`<${Loading} />`;
}

/** Everything that the form is made of; a run to repeat names its skill itself. */
async function loadForm({ skill, from }, signal) {
  const get = (path) => api.get(path, undefined, { signal });
  const [request, run] = from ? await Promise.all([get(`${runPath(from)}/request`), get(runPath(from))]) : [];
  const id = request?.skill_id ?? skill;
  const [found, schemas, { engines }] = await Promise.all([
    get(skillPath(id)),
    get(`${skillPath(id)}/schemas`),
    get("/v1/engines"),
  ]);
  return { skill: found, schemas, engines, request, earlier: run?.files };
}

function Chosen({ skill, from, engine }) {
  const { data, error, reload } = useLoad((signal) => loadForm({ skill, from }, signal), []);
  if (!data && !error) return html`<${Loading} />`;
  return html`${error && html`<${CannotBegin} error=${error} retry=${reload} />`}
    ${data && html`<${RunForm} ...${data} from=${from} engine=${engine} onRefresh=${reload} />`}`;
}

function CannotBegin({ error, retry }) {
  const problems = error.facts?.problems;
  const why = problems
    ? html`<${Problems} title=${t("skills.problems")} problems=${problems} />`
    : html`<${Problem} error=${error} retry=${retry} />`;
  return html`${why}<p><a href="#/new">${t("new.otherSkill")}</a></p>`;
}
