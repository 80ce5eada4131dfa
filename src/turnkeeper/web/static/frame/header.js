// The header: logo, the four places, the menu.
import { may, me, TO_START } from "../lib/me.js";
import { html } from "../lib/preact.js";
import { useStore } from "../lib/store.js";
import { t } from "../lib/words.js";
import { Menu } from "./menu.js";
import { waiting } from "./watch.js";

const PLACES = [
  ["inbox", "#/", ["inbox", "run"]],
  ["new", "#/new", ["new"]],
  ["skills", "#/skills", ["skills", "skill"]],
  ["engines", "#/engines", ["engines"]],
];

/** Places that are only there for who may do something. */
const NEEDS = { new: TO_START, skills: ["read"], engines: ["read"] };

function Count({ count }) {
  if (!count) return null;
  return html` <span class="count"><span aria-hidden="true">${count}</span>
    <span class="visually-hidden">${t("nav.waiting", { count })}</span></span>`;
}

export function Header({ page, onKeys, isSignedIn }) {
  const count = useStore(waiting);
  useStore(me);
  return html`<header class="top">
    <a class="logo" href="#/" aria-label="Turnkeeper"><img src="/static/icon.svg" alt="" /><span>Turnkeeper</span></a>
    ${isSignedIn
      ? html`<nav class="nav" aria-label=${t("nav")}>
          ${PLACES.filter(([name]) => may(...(NEEDS[name] ?? []))).map(
            ([name, href, pages]) => html`<a key=${name} href=${href}
              aria-current=${pages.includes(page) ? "page" : undefined}>
              ${t(`nav.${name}`)}${name === "inbox" && html`<${Count} count=${count} />`}</a>`,
          )}
        </nav>`
      : html`<div class="grow"></div>`}
    <${Menu} onKeys=${onKeys} canSignOut=${isSignedIn} />
  </header>`;
}
