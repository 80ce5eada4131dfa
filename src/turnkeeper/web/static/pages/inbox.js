// The inbox: what needs you, what is being worked on, what is done.
import { askForPermission, permission } from "../frame/notify.js";
import { Filters } from "../inbox/filters.js";
import { GROUPS, loadGroup, STEP, wantedStatuses } from "../inbox/groups.js";
import { Row } from "../inbox/row.js";
import { Icon } from "../lib/icons.js";
import { useKeys } from "../lib/keys.js";
import { may, TO_START, useMay } from "../lib/me.js";
import { Button, Empty, Loading, Problem } from "../lib/parts.js";
import { usePoll } from "../lib/poll.js";
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { currentRoute, replace } from "../lib/router.js";
import { useStore } from "../lib/store.js";
import { t } from "../lib/words.js";
import { Late } from "../run/late.js";

const FILTERS = ["q", "skill", "engine", "status"];

const first = Object.fromEntries(GROUPS.map((group) => [group.name, group.size]));

/** What was shown when a run was opened from here, and which one: whoever comes back goes on at that place. */
let left = null;

/** Everything the inbox shows: piles by name, or what went wrong. `showMore` makes one of them longer. */
function usePiles(filters) {
  const key = FILTERS.map((name) => filters[name] ?? "").join("\n");
  const before = useRef(left?.run && left.key === key ? left : null).current;
  const [piles, setPiles] = useState(before?.piles ?? null);
  const [error, setError] = useState(null);
  const wanted = useRef(before?.wanted ?? first);
  const shown = useRef({ key: before?.key ?? "", piles: before?.piles ?? null });
  const again = usePoll(async (signal) => {
    const isSame = shown.current.key === key;
    if (!isSame) wanted.current = first;
    const groups = GROUPS.filter((group) => wantedStatuses(group, filters).length);
    const known = isSame ? shown.current.piles : null;
    const load = (group) => loadGroup(group, filters, wanted.current[group.name], known?.[group.name], signal);
    try {
      const loaded = await Promise.all(groups.map(load));
      const next = Object.fromEntries(groups.map((group, at) => [group.name, loaded[at]]));
      shown.current = { key, piles: next };
      setPiles(next);
      setError(null);
    } catch (problem) {
      if (problem.name !== "AbortError" && !signal.aborted) setError(problem);
    }
  }, [key]);
  const showMore = (name) => {
    wanted.current = { ...wanted.current, [name]: wanted.current[name] + STEP };
    return again();
  };
  useEffect(() => () => void (left = { ...shown.current, wanted: wanted.current, run: currentRoute().id }), []);
  useEffect(() => focusRun(before?.run), []);
  return { piles, error, again, showMore };
}

function focusRun(id) {
  const link = id && document.querySelector(`li[data-run="${CSS.escape(id)}"] .run-link`);
  if (!link) return;
  link.focus({ preventScroll: true });
  link.closest("li").scrollIntoView({ block: "center" });
}

function Group({ group, pile, onMore, ...heard }) {
  const { runs, hasMore } = pile;
  const id = `group-${group.name}`;
  const rows = runs.map((run) => html`<${Row} key=${run.run_id} run=${run} ...${heard} />`);
  return html`<section class=${group.name === "needs" ? "group needs-you" : "group"} aria-labelledby=${id}>
    <div class="group-head"><h2 id=${id}>${t(`inbox.group.${group.name}`)}</h2>
      <span class="muted">${runs.length}${hasMore && "+"}</span></div>
    ${runs.length
      ? html`<ul class="runs">${rows}</ul>`
      : html`<p class="group-empty">${t(`inbox.none.${group.name}`)}</p>`}
    ${hasMore && html`<div class="more"><${Button} onClick=${onMore}>${t("inbox.more")}<//></div>`}
  </section>`;
}

function Nothing({ isFiltered }) {
  if (isFiltered) {
    return html`<${Empty} title=${t("inbox.nomatch")}>
      <p>${t("inbox.nomatch.how")}</p><${Button} onClick=${() => replace("#/")}>${t("inbox.clear")}<//><//>`;
  }
  if (!may(...TO_START)) return html`<${Empty} title=${t("inbox.first")} />`;
  return html`<${Empty} title=${t("inbox.first")}>
    <p>${t("inbox.first.how")}</p>
    <a class="button primary" href="#/new?skill=interview&engine=demo">${t("inbox.first.try")}</a>
    <p><a href="#/skills">${t("inbox.first.skills")}</a></p>
  <//>`;
}

function TellMe() {
  if (useStore(permission) !== "default") return null;
  return html`<${Button} class="quiet tell-me" onClick=${askForPermission}>
    <${Icon} name="bell" />${t("inbox.notify")}<//>`;
}

const NO_ANSWERS = new Map();

/** Above the list: the row of a question that somebody else has answered is gone the next moment. */
function TooLate({ late, onRead }) {
  if (!late) return null;
  const close = () => {
    onRead();
    document.getElementById("main").focus({ preventScroll: true });
  };
  return html`<div class="too-late"><${Late} late=${late} answers=${NO_ANSWERS} onClose=${close}>
    <a href=${`#/runs/${late.run.run_id}`}>${late.run.skill_id}</a><//></div>`;
}

/** j and k walk over the rows of all groups; Enter follows the link that has the focus. */
function move(step) {
  const links = [...document.querySelectorAll(".run-link")];
  const here = document.activeElement?.closest("li[data-run]")?.querySelector(".run-link");
  const at = links.indexOf(here);
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step];
  next?.focus();
  next?.closest("li").scrollIntoView({ block: "nearest" });
}

export function Inbox({ query }) {
  const { piles, error, again, showMore } = usePiles(query);
  const searchBox = useRef();
  const [late, setLate] = useState(null);
  const mayStart = useMay(...TO_START);
  useKeys({ "/": () => searchBox.current?.focus(), j: () => move(1), k: () => move(-1) });
  const change = (part) => {
    // As the address is now: a search that was typed may come after a filter that was chosen.
    const next = Object.entries({ ...currentRoute().query, ...part }).filter(([, value]) => value);
    replace(next.length ? `#/?${new URLSearchParams(next)}` : "#/");
  };
  const isFiltered = FILTERS.some((name) => query[name]);
  const isEmpty = piles && Object.values(piles).every((pile) => !pile.runs.length);
  const groups = GROUPS.filter((group) => piles?.[group.name]);
  return html`<div class="page-head"><h1 class="grow">${t("nav.inbox")}</h1><${TellMe} />
      ${mayStart && html`<a class="button primary" href="#/new"><${Icon} name="plus" />${t("nav.new")}</a>`}</div>
    ${(isFiltered || !isEmpty) && html`<${Filters} filters=${query} onChange=${change} searchBox=${searchBox} />`}
    <${Problem} error=${error} retry=${again} />
    <${TooLate} late=${late} onRead=${() => setLate(null)} />
    ${!piles && !error && html`<${Loading} />`}
    ${isEmpty
      ? html`<${Nothing} isFiltered=${isFiltered} />`
      : groups.map((group) => html`<${Group} key=${group.name} group=${group} pile=${piles[group.name]}
          onMore=${() => showMore(group.name)} onAnswered=${again} onLate=${setLate} />`)}`;
}
