// The first step of a new run: which skill. Broken ones are shown with the reason, and cannot be chosen.

import { Empty } from "../lib/parts.js";
import { Icon } from "../lib/icons.js";
import { html, useState } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { FirstSkill } from "./firstskill.js";

const MANY = 6;

export const isBroken = (skill) => skill.problems?.length > 0;

/** The skills that have every word that was typed, the usable ones first. */
export function found(skills, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = skills.filter((skill) => {
    const all = `${skill.id} ${skill.name} ${skill.description}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
  return [...matching.filter((skill) => !isBroken(skill)), ...matching.filter(isBroken)];
}

export function SkillChoice({ skills }) {
  const [text, setText] = useState("");
  if (!skills.length) return html`<${Empty} title=${t("skills.empty.title")}><${FirstSkill} /><//>`;
  const shown = found(skills, text);
  const item = (skill) => html`<li key=${skill.id}><${isBroken(skill) ? Broken : Usable} skill=${skill} /></li>`;
  return html`<section class="stack" aria-labelledby="choose-skill">
    <h2 id="choose-skill">${t("new.chooseSkill")}</h2>
    ${skills.length > MANY && html`<${SkillSearch} text=${text} onText=${setText} count=${shown.length} />`}
    ${!shown.length && html`<p class="muted">${t("skills.noneFound")}</p>`}
    <ul class="plain-list stack">${shown.map(item)}</ul>
  </section>`;
}

export function SkillSearch({ text, onText, count }) {
  return html`<div class="field search"><label for="skill-search" class="visually-hidden">${t("skills.search")}</label>
    <${Icon} name="search" /><input id="skill-search" type="search" value=${text} placeholder=${t("skills.search")}
      autocomplete="off" onInput=${(event) => onText(event.currentTarget.value)} />
    <span class="visually-hidden" role="status">${text && t("skills.found", { count })}</span></div>`;
}

const Usable = ({ skill }) => html`<a class="card skill-link" href=${`#/new?skill=${encodeURIComponent(skill.id)}`}>
  <strong>${skill.id}</strong><span class="clamp">${skill.description || t("skills.noDescription")}</span></a>`;

function Broken({ skill }) {
  return html`<div class="card skill-link closed" aria-disabled="true">
    <span class="row wrap"><strong>${skill.id}</strong> <span class="chip bad">${t("skills.broken")}</span></span>
    <span class="why">${skill.problems[0]}</span>
    <a href=${`#/skills/${encodeURIComponent(skill.id)}`}>${t("skills.details")}</a></div>`;
}
