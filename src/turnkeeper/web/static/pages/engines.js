// The engines: which are ready, what makes the others so, and what each can do.

import "../words/catalogue.js";
import { announce } from "../lib/announce.js";
import { api } from "../lib/api.js";
import { Icon } from "../lib/icons.js";
import { Button, Fold, Loading, Notice, Problem } from "../lib/parts.js";
import { html, useEffect, useRef } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { Fix } from "../forms/fix.js";
import { useLoad } from "../forms/load.js";

export function Engines() {
  const { data, error, isLoading, reload } = useLoad((signal) => api.get("/v1/engines", undefined, { signal }), []);
  const isAskedFor = useRef(false);
  useEffect(() => {
    if (!isLoading && isAskedFor.current && data) announce(t("engines.refreshed"));
  }, [isLoading]);
  const refresh = () => {
    isAskedFor.current = true;
    reload();
  };
  return html`<div class="page stack engines">
    <div class="row wrap"><h1 class="grow">${t("engines.title")}</h1>
      <${Button} busy=${isLoading && Boolean(data)} onClick=${refresh}><${Icon} name="again" />${t("engines.refresh")}<//></div>
    <p class="muted">${t("engines.about")}</p>
    ${error && html`<${Problem} error=${error} retry=${refresh} />`}
    ${data ? html`<${List} engines=${data.engines} />` : !error && html`<${Loading} />`}
  </div>`;
}

/** The ready ones first, in the order in which the service would choose them. */
function List({ engines }) {
  const inOrder = [...engines.filter((engine) => engine.ready), ...engines.filter((engine) => !engine.ready)];
  const hasReal = engines.some((engine) => engine.ready && engine.name !== "demo");
  return html`${!hasReal && html`<${Notice} kind="info" title=${t("engines.noReal")}><p>${t("engines.noReal.text")}</p><//>`}
    <ul class="plain-list engine-grid">${inOrder.map((engine) => html`<${EngineCard} key=${engine.name} engine=${engine} />`)}</ul>`;
}

function EngineCard({ engine }) {
  const isDemo = engine.name === "demo";
  const facts = html`<${Facts} engine=${engine} />`;
  return html`<li class="card stack">
    <div class="row wrap"><h2>${engine.name}</h2>
      <span class=${engine.ready ? "chip good" : "chip bad"}>${t(engine.ready ? "engine.ready" : "engine.notReady")}</span>
      ${isDemo && html`<span class="chip">${t("engine.builtIn")}</span>`}
      <span class="muted small">${engine.version}</span></div>
    ${isDemo && html`<p>${t("engine.demo")} ${t("engine.demo.more")}</p>`}
    <${Mending} reason=${engine.ready ? undefined : engine.reason} warning=${engine.warning} fix=${engine.fix} />
    ${engine.ready ? facts : html`<${Fold} summary=${t("engine.details")}>${facts}<//>`}
  </li>`;
}

/** What is wrong, or only remarkable, and the command that changes it. */
function Mending({ reason, warning, fix }) {
  if (!reason && !warning) return null;
  return html`${reason && html`<p class="why">${reason}</p>`}
    ${!reason && html`<p class="remark">${warning}</p>`}
    <${Fix} text=${fix} />`;
}

function Facts({ engine }) {
  const { login, models, limit, resident } = engine;
  const isTold = !engine.ready && engine.reason === resident?.reason;
  return html`<dl class="facts">
    ${engine.path && html`<dt>${t("engine.path")}</dt><dd class="mono">${engine.path}</dd>`}
    <dt>${t("engine.login")}</dt><dd>${t(`engine.login.${login.kind}`)} ${login.source && html`<code>${login.source}</code>`}</dd>
    <dt>${t("engine.profiles")}</dt><dd>${engine.profiles.map((kind) => t(`engine.profile.${kind}`)).join(", ")}</dd>
    ${resident && html`<dt>${t("engine.resident")}</dt><dd><${Resident} ...${resident} isTold=${isTold} /></dd>`}
    <dt>${t("engine.permissions")}</dt><dd>${engine.permissions.map((each) => t(`new.permissions.${each}`)).join(", ")}</dd>
    <dt>${t("engine.limit")}</dt><dd>${limit === null ? t("engine.limit.none") : t("engine.limit.count", { count: limit })}</dd>
    ${models.length > 0 && html`<dt>${t("engine.models")}</dt><dd><${Models} models=${models} /></dd>`}
  </dl>`;
}

function Models({ models }) {
  if (models.length <= 6) return models.join(", ");
  return html`<${Fold} summary=${t("engine.models.count", { count: models.length })}>${models.join(", ")}<//>`;
}

/** As a process that stays: sometimes another program, with a state of its own; `isTold`: the reason stands above. */
function Resident({ ready, path, version, reason, fix, warning, isTold }) {
  if (!ready && isTold) return t("engine.notReady");
  return html`<p>${t(ready ? "engine.ready" : "engine.notReady")} <span class="muted">${version}</span></p>
    ${ready && path && html`<p class="mono muted">${path}</p>`}
    <${Mending} reason=${ready ? undefined : reason} warning=${warning} fix=${fix} />`;
}
