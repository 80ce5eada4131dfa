// How to get a first skill, for pages that would be empty without one.

import { Code } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";

const COMMANDS = "turnkeeper skills new my-skill\nturnkeeper skills install my-skill";

/** `isHere`: the place to install one is on the same page. */
export function FirstSkill({ isHere = false }) {
  return html`<p>${t("skills.empty.text")}</p>
    <${Code} text=${COMMANDS} copy />
    <p>${isHere ? t("skills.empty.below") : html`<a href="#/skills">${t("skills.empty.upload")}</a>`}</p>`;
}
