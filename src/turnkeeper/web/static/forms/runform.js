// The form of a new run: the skill's own fields, how it is played, and what is wrong, at its place.

import { announce } from "../lib/announce.js";
import { Fold, Notice, Problem } from "../lib/parts.js";
import { html, useState } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { useEditing } from "./editing.js";
import { Group, isEmptyGroup } from "./group.js";
import { save } from "./memory.js";
import { Preview } from "./preview.js";
import { EngineChoice, ModeChoice, PermissionChoice } from "./runchoices.js";
import { filesOf } from "./schema.js";
import { SendBar } from "./sendbar.js";
import { useSending } from "./sending.js";
import { Fields } from "./several.js";
import { formPlaces, optionsShown } from "./state.js";
import { focusField, Summary } from "./summary.js";

export function RunForm({ from, earlier, onRefresh, ...given }) {
  const editing = useEditing({ ...given, from });
  const [problem, setProblem] = useState(null);
  const sending = useSending({ onRefused: refused, onDone: editing.forget });
  const { state, change, choose } = editing;

  function tell(places, count) {
    announce(t("form.summary", { count }));
    if (places.length) setTimeout(() => focusField(places[0]));
  }

  function refused(error) {
    const { places, others } = editing.refuse(error);
    const hasMore = !places.length || others.length > 0;
    if (hasMore) error.errors = others.map((each) => each.text);
    setProblem(hasMore ? error : null);
    tell(places, places.length + others.length || 1);
  }

  function submit(event) {
    event.preventDefault();
    setProblem(null);
    const places = editing.check();
    if (places.length) return tell(places, places.length);
    remember(state);
    return sending.phase === "stuck" ? sending.retry(editing.latest()) : sending.submit(editing.latest());
  }

  const isLocked = sending.phase !== "editing";
  const errors = Object.fromEntries(Object.entries(editing.errors).map(([at, error]) => [at, error.text]));
  const form = {
    errors,
    earlier,
    locked: isLocked,
    filesLocked: isLocked && sending.phase !== "stuck",
    touch: editing.touch,
  };
  return html`<form class="stack" noValidate onSubmit=${submit} onKeyDown=${sendByKey} aria-label=${t("new.title")}>
    <${SkillHead} skill=${state.skill} />
    ${from && html`<${Again} from=${from} files=${filesOf(state.input.node)} earlier=${earlier} />`}
    <${Summary} errors=${editing.errors} places=${formPlaces(state)} />
    ${problem && html`<${Problem} error=${problem} />`}
    <${Inputs} state=${state} form=${form} change=${change} />
    <${Parameters} state=${state} form=${form} change=${change} />
    <${HowToPlay} ...${{ state, form, change, choose, onRefresh }} />
    <${SendBar} sending=${sending} canStart=${state.engines.some((engine) => engine.ready)} />
  </form>`;
}

function remember(state) {
  save("engine", state.engine);
  if (state.skill.execution_modes.length > 1) save("mode", state.mode);
}

/** Enter makes a new line in a text; with Ctrl or Cmd it sends, as in the rest of the page. */
function sendByKey(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
}

function SkillHead({ skill }) {
  return html`<header class="stack small-gap skill-head">
    <div class="row wrap"><h2>${skill.id}</h2><span class="muted">${skill.version !== "0" && skill.version}</span>
      <a href=${`#/skills/${encodeURIComponent(skill.id)}`}>${t("skills.details")}</a>
      <a href="#/new">${t("new.otherSkill")}</a></div>
    ${skill.description && html`<p>${skill.description}</p>`}
  </header>`;
}

/** Everything of the earlier run is filled in but its files: those stay in its own folder. */
function Again({ from, files, earlier }) {
  const names = files.filter((file) => file.required || earlier?.[file.key]).map((file) => file.title);
  const run = html`<a href=${`#/runs/${encodeURIComponent(from)}`}>${from.slice(0, 12)}</a>`;
  return html`<${Notice} kind="info" title=${t("new.again.title")}>
    <p>${t("new.again.text")} ${run}</p>
    ${names.length > 0 && html`<p>${t("new.again.files", { names: names.join(", ") })}</p>`}
  <//>`;
}

function Inputs({ state, form, change }) {
  if (isEmptyGroup(state.input)) return null;
  return html`<${Group} name="input" group=${state.input} form=${form} onChange=${(input) => change({ input })} />`;
}

/** A skill without a schema for them takes any; that is for those who know, so it is folded. */
function Parameters({ state, form, change }) {
  const { parameter } = state;
  const box = html`<${Group} name="parameter" group=${parameter} form=${form} onChange=${(next) => change({ parameter: next })} />`;
  if (isEmptyGroup(parameter)) return null;
  if (!parameter.node.anything) return box;
  return html`<${Fold} summary=${t("new.parameter.any")} open=${parameter.json !== null || parameter.draft.length > 0}>${box}<//>`;
}

function HowToPlay({ state, form, change, choose, onRefresh }) {
  return html`<section class="card stack how" aria-labelledby="how">
    <h2 id="how">${t("new.how")}</h2>
    <${EngineChoice} state=${state} form=${form} onRefresh=${onRefresh} onChange=${(engine) => choose({ engine })} />
    <${ModeChoice} state=${state} form=${form} onChange=${(mode) => choose({ mode })} />
    <${PermissionChoice} state=${state} form=${form} onChange=${(permissions) => choose({ permissions })} />
    <${Fold} summary=${t("new.advanced")}><div class="stack advanced">
      <${Fields} node=${optionsShown(state)} draft=${state.options} at="" form=${form}
        onChange=${(options) => change({ options })} />
    </div><//>
    <${Preview} state=${state} />
  </section>`;
}
