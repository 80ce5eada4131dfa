// The skills: all of them with what the linter says, one in detail, and the ways to install and remove them.

import "../words/catalogue.js";
import { api } from "../lib/api.js";
import { Icon } from "../lib/icons.js";
import { may, TO_START } from "../lib/me.js";
import { Button, Dialog, Empty, Loading, Problem } from "../lib/parts.js";
import { html, useEffect, useState } from "../lib/preact.js";
import { go } from "../lib/router.js";
import { setTitle } from "../lib/title.js";
import { duration, t } from "../lib/words.js";
import { Findings, LintChip, Problems } from "../forms/findings.js";
import { FirstSkill } from "../forms/firstskill.js";
import { Install } from "../forms/install.js";
import { useLoad } from "../forms/load.js";
import { SchemaView } from "../forms/schemaview.js";
import { found, isBroken, SkillSearch } from "../forms/skillchoice.js";

const MANY = 6;
const KINDS = ["input", "parameter", "output"];
const pathOf = (id) => `/v1/skills/${encodeURIComponent(id)}`;
const pageOf = (id) => `#/skills/${encodeURIComponent(id)}`;
const startOf = (id) => `#/new?skill=${encodeURIComponent(id)}`;

export function Skills() {
  const { data, error, reload } = useLoad((signal) => api.get("/v1/skills", undefined, { signal }), []);
  return html`<div class="page stack skills">
    <div class="row wrap"><h1 class="grow">${t("skills.title")}</h1>
      ${may("admin") && html`<${Button} onClick=${toInstall}><${Icon} name="plus" />${t("install.title")}<//>`}</div>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${data ? html`<${SkillList} skills=${data.skills} />` : !error && html`<${Loading} />`}
    ${may("admin") && html`<${Install} onInstalled=${reload} />`}
  </div>`;
}

/** The place to install is below the list, which may be long. */
function toInstall() {
  const place = document.getElementById("install-file");
  place.closest("section").scrollIntoView({ block: "center" });
  place.focus({ preventScroll: true });
}

function SkillList({ skills }) {
  const [text, setText] = useState("");
  const findings = useFindings(skills);
  if (!skills.length) return html`<${Empty} title=${t("skills.empty.title")}>${may("admin") && html`<${FirstSkill} isHere />`}<//>`;
  const shown = found(skills, text);
  const card = (skill) => html`<${SkillCard} key=${skill.id} skill=${skill} findings=${findings[skill.id]} />`;
  return html`${skills.length > MANY && html`<${SkillSearch} text=${text} onText=${setText} count=${shown.length} />`}
    ${!shown.length && html`<p class="muted">${t("skills.noneFound")}</p>`}
    <ul class="plain-list skill-grid">${shown.map(card)}</ul>`;
}

/** What the linter says of each, one after the other: a folder may hold many skills. */
function useFindings(skills) {
  const [found, setFound] = useState({});
  useEffect(() => {
    const stop = new AbortController();
    (async () => {
      for (const skill of skills) {
        const answer = await api.get(`${pathOf(skill.id)}/lint`, undefined, { signal: stop.signal }).catch(() => null);
        if (stop.signal.aborted) return;
        if (answer) setFound((before) => ({ ...before, [skill.id]: answer.findings }));
      }
    })();
    return () => stop.abort();
  }, [skills]);
  return found;
}

function SkillCard({ skill, findings }) {
  const name = skill.id;
  const isGood = !isBroken(skill);
  const start = html`<a class="button" href=${startOf(name)} aria-label=${t("skills.start.of", { name })}>${t("skills.start")}</a>`;
  return html`<li class="card stack">
    <div class="row wrap"><h2><a href=${pageOf(name)}>${name}</a></h2><${Chips} skill=${skill} />
      ${isGood && html`<${LintChip} findings=${findings} />`}</div>
    ${isGood && html`<p class="clamp">${skill.description || t("skills.noDescription")}</p>`}
    ${isGood && html`<p class="muted small">${modesOf(skill)} · ${skill.engines.join(", ")}</p>`}
    ${!isGood && html`<p class="why">${skill.problems[0]}</p>`}
    <div class="row wrap card-end">${isGood && may(...TO_START) && start}
      <a class="button quiet" href=${pageOf(name)} aria-label=${t("skills.details.of", { name })}>${t("skills.details")}</a></div>
  </li>`;
}

function Chips({ skill }) {
  return html`${skill.version && skill.version !== "0" && html`<span class="muted small">${skill.version}</span>`}
    ${skill.managed && html`<span class="chip">${t("skills.managed")}</span>`}
    ${isBroken(skill) && html`<span class="chip bad">${t("skills.broken")}</span>`}`;
}

const modesOf = (skill) => skill.execution_modes.map((mode) => t(`new.mode.${mode}`)).join(", ");

/** A broken skill has no page of its own in the API: the list has what is known of it. */
async function loadSkill(id, signal) {
  const get = (path) => api.get(path, undefined, { signal });
  const findings = get(`${pathOf(id)}/lint`)
    .then((answer) => answer.findings)
    .catch(() => null);
  try {
    const [skill, schemas] = await Promise.all([get(pathOf(id)), get(`${pathOf(id)}/schemas`)]);
    return { skill, schemas, findings: await findings };
  } catch (error) {
    if (error.code !== "SKILL_BROKEN") throw error;
    const { skills } = await get("/v1/skills");
    return {
      skill: skills.find((each) => each.id === id) ?? { id, problems: error.facts.problems ?? [error.message] },
      findings: await findings,
    };
  }
}

export function SkillPage({ id }) {
  const { data, error, reload } = useLoad((signal) => loadSkill(id, signal), [id]);
  useEffect(() => setTitle(id), [id]);
  return html`<div class="page stack skill-page">
    <p><a href="#/skills">${t("skills.back")}</a></p>
    ${error && html`<h1>${id}</h1><${Problem} error=${error} retry=${reload} />`}
    ${data ? html`<${Details} ...${data} />` : !error && html`<${Loading} />`}
  </div>`;
}

function Details({ skill, schemas, findings }) {
  return html`<div class="row wrap"><h1>${skill.id}</h1><${Chips} skill=${skill} /></div>
    ${skill.description && html`<p>${skill.description}</p>`}
    ${isBroken(skill) && html`<${Problems} title=${t("skills.problems")} problems=${skill.problems} />`}
    <div class="row wrap actions">
      ${!isBroken(skill) && may(...TO_START) && html`<a class="button primary" href=${startOf(skill.id)}>${t("skills.start")}</a>`}
      ${skill.managed && may("admin") && html`<${Remove} id=${skill.id} />`}
    </div>
    ${!isBroken(skill) && html`<${Facts} skill=${skill} />`}
    ${schemas && KINDS.map((name) => html`<${SchemaView} key=${name} name=${name} schema=${schemas[name]} />`)}
    ${findings && html`<${Check} findings=${findings} />`}`;
}

const Check = ({ findings }) => html`<section class="card stack" aria-labelledby="lint">
  <div class="row wrap"><h2 id="lint">${t("lint.title")}</h2>${findings.length > 0 && html`<${LintChip} findings=${findings} />`}</div>
  <${Findings} findings=${findings} />
</section>`;

function Facts({ skill }) {
  const timeouts = Object.entries(skill.timeouts ?? {});
  const mode = (name) => html`<p key=${name}>${t(`new.mode.${name}`)} <span class="muted">${t(`new.mode.${name}.help`)}</span></p>`;
  const limit = ([name, seconds]) => html`<p key=${name}>${t(`new.${name}`)}: ${duration(seconds)}</p>`;
  return html`<section class="card stack" aria-labelledby="facts"><h2 id="facts">${t("skill.facts")}</h2><dl class="facts">
    <dt>${t("skill.modes")}</dt><dd>${skill.execution_modes.map(mode)}</dd>
    <dt>${t("skill.engines")}</dt><dd>${skill.engines.join(", ") || t("skill.engines.none")}</dd>
    <dt>${t("skill.turns")}</dt><dd>${skill.max_attempt ?? t("skill.turns.any")}</dd>
    <dt>${t("skill.secrets")}</dt><dd>${skill.secrets?.length ? skill.secrets.join(", ") : t("skill.secrets.none")}</dd>
    <dt>${t("skill.timeouts")}</dt><dd>${timeouts.length ? timeouts.map(limit) : t("skill.timeouts.usual")}</dd>
    <dt>${t("skill.origin")}</dt><dd>${t(skill.managed ? "skill.origin.managed" : "skill.origin.folder")}</dd>
  </dl></section>`;
}

function Remove({ id }) {
  const [isAsking, setAsking] = useState(false);
  const [state, setState] = useState({});
  const remove = async () => {
    setState({ isBusy: true });
    try {
      await api.del(pathOf(id));
      go("/skills");
    } catch (error) {
      setState({ error });
    }
  };
  return html`<${Button} kind="danger" onClick=${() => setAsking(true)}>${t("skills.remove")}<//>
    ${isAsking && html`<${Dialog} title=${t("skills.remove.title", { name: id })} onClose=${() => setAsking(false)}>
      <p>${t("skills.remove.text")}</p>
      <${Problem} error=${state.error} />
      <div class="dialog-actions"><${Button} onClick=${() => setAsking(false)}>${t("skills.remove.keep")}<//>
        <${Button} kind="danger" busy=${state.isBusy} onClick=${remove}>${t("skills.remove")}<//></div>
    <//>`}`;
}
