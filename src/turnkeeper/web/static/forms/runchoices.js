// How the run is played: on which engine, with or without questions, and what an agent may do unasked.

import { Icon } from "../lib/icons.js";
import { Button, Fold } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { Cards, CardOption } from "./cards.js";
import { Fix } from "./fix.js";
import { permissionsOf } from "./state.js";

/** Those that are ready, then the others with what would make them so. */
export function EngineChoice({ state, form, onRefresh, onChange }) {
  const [ready, others] = [true, false].map((is) => state.engines.filter((engine) => engine.ready === is));
  const given = { at: "engine", legend: t("new.engine"), options: ready.map(engineOption), value: state.engine, form, onChange };
  return html`<${Cards} ...${given}>
    ${!ready.length && html`<p class="muted">${t("new.engine.none")}</p>`}
    ${others.length > 0 && html`<${NotReady} engines=${others} form=${form} onRefresh=${onRefresh} isOpen=${!ready.length} />`}
  <//>`;
}

function NotReady({ engines, form, onRefresh, isOpen }) {
  const card = (engine) => html`<${CardOption} key=${engine.name} at="engine" option=${engineOption(engine)} form=${form} />`;
  return html`<${Fold} summary=${t("new.engine.notReady", { count: engines.length })} open=${isOpen}>
    <div class="card-grid">${engines.map(card)}</div>
    <p class="row wrap"><${Button} disabled=${form.locked} onClick=${onRefresh}><${Icon} name="again" />${t("engines.refresh")}<//>
      <a href="#/engines">${t("new.engine.more")}</a></p>
  <//>`;
}

function engineOption(engine) {
  const isDemo = engine.name === "demo";
  return {
    value: engine.name,
    title: engine.name,
    badge: isDemo
      ? html`<span class="chip">${t("engine.builtIn")}</span>`
      : engine.version && html`<span class="muted small">${engine.version}</span>`,
    text: isDemo ? t("engine.demo") : engine.ready && engine.warning,
    reason: engine.ready ? undefined : engine.reason,
    more: !engine.ready && html`<${Fix} text=${engine.fix} />`,
  };
}

export function ModeChoice({ state, form, onChange }) {
  const modes = ["interactive", "auto"].filter((mode) => state.skill.execution_modes.includes(mode));
  const options = modes.map((value) => ({ value, title: t(`new.mode.${value}`), text: t(`new.mode.${value}.help`) }));
  const given = { at: "execution_mode", legend: t("new.mode"), options, value: state.mode, form, onChange };
  if (modes.length > 1) return html`<${Cards} ...${given} />`;
  return html`<div class="stack small-gap"><h3>${t("new.mode")}</h3>
    <p><strong>${options[0].title}</strong> <span class="muted">${options[0].text} ${t("new.mode.only")}</span></p></div>`;
}

export function PermissionChoice({ state, form, onChange }) {
  const options = permissionsOf(state).map(({ value, reason, fix }, index, all) => ({
    value,
    title: t(`new.permissions.${value}`),
    text: t(`new.permissions.${value}.help`),
    reason: reason && t(reason.key, reason.values),
    more: fix && fix !== all[index - 1]?.fix && html`<${Fix} text=${fix} />`,
  }));
  if (options.length < 2) return null;
  const given = { at: "permissions", legend: t("new.permissions"), options, value: state.permissions, form, onChange };
  return html`<${Cards} ...${given} />`;
}
