// The beginning: words, sign-in, and the frame around the page that the address names.
import { KeyHelp } from "./frame/keyhelp.js";
import { Header } from "./frame/header.js";
import { NoWalls } from "./frame/walls.js";
import { startWatch, waiting } from "./frame/watch.js";
import { Announcer } from "./lib/announce.js";
import { reachable, signedIn } from "./lib/api.js";
import { isLinkAddress, takeLink } from "./lib/guest.js";
import { useKeys } from "./lib/keys.js";
import { Button, Empty, Loading, Notice } from "./lib/parts.js";
import { html, render, useEffect, useRef, useState } from "./lib/preact.js";
import { currentRoute, useRoute } from "./lib/router.js";
import { lookForSession, rememberPlace, signInByCode, takeCode } from "./lib/session.js";
import { useStore } from "./lib/store.js";
import { setTitle, useTabTitle } from "./lib/title.js";
import { addWords, language, languageStore, t } from "./lib/words.js";
import { Inbox } from "./pages/inbox.js";
import { SignIn } from "./pages/signin.js";
import en from "./words/frame.en.js";
import zh from "./words/frame.zh.js";
import guestEn from "./words/guest.en.js";
import guestZh from "./words/guest.zh.js";

addWords({ en, zh });
addWords({ en: guestEn, zh: guestZh });

/** Pages that are loaded when somebody goes there, and what they are given. */
const PAGES = {
  inbox: [async () => Inbox, ({ query }) => ({ query })],
  run: [async () => (await import("./pages/run.js")).RunPage, ({ id }) => ({ id, key: id })],
  new: [async () => (await import("./pages/new.js")).NewRun, ({ query }) => ({ query })],
  skills: [async () => (await import("./pages/skills.js")).Skills, () => ({})],
  skill: [async () => (await import("./pages/skills.js")).SkillPage, ({ id }) => ({ id, key: id })],
  engines: [async () => (await import("./pages/engines.js")).Engines, () => ({})],
  lost: [async () => Lost, () => ({})],
};

function Lost() {
  return html`<${Empty} title=${t("lost.title")} level=${1}><p><a href="#/">${t("lost.back")}</a></p><//>`;
}

/** Browsers remember that a module did not come: only a new page asks for it again. */
function NotLoaded({ error }) {
  return html`<${Notice} kind="error" title=${t("page.failed")}><p>${error.message}</p>
    <p><${Button} onClick=${() => location.reload()}>${t("page.reload")}<//></p><//>`;
}

function Page({ route }) {
  const [loaded, setLoaded] = useState({});
  const [load, given] = PAGES[route.page];
  useEffect(() => {
    let isWanted = true;
    load().then(
      (component) => isWanted && setLoaded({ page: route.page, component }),
      (error) => isWanted && setLoaded({ page: route.page, error }),
    );
    return () => (isWanted = false);
  }, [route.page]);
  if (loaded.page !== route.page) return html`<${Loading} />`;
  if (loaded.error) return html`<${NotLoaded} error=${loaded.error} />`;
  return html`<${loaded.component} ...${given(route)} />`;
}

/** Pages that give the tab their own title. */
const NAMED = new Set(["run", "skill"]);

/** A new page begins at its top, and the keyboard and the screen reader begin there too. */
function useArrival(route, main, isSignedIn) {
  const isFirst = useRef(true);
  useEffect(() => {
    if (isSignedIn && !NAMED.has(route.page)) setTitle(t(`nav.${route.page}`));
  }, [route.page, language(), isSignedIn]);
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else {
      scrollTo(0, 0);
      main.current?.focus({ preventScroll: true });
    }
  }, [route.path, isSignedIn]);
}

/** An address with a code may also be opened in a tab that is here already: then only the part behind `#` changes. */
function useCodes(first) {
  const [problem, setProblem] = useState(first);
  useEffect(() => {
    const look = () => {
      const code = takeCode();
      if (code !== null) signInByCode(code).then(() => setProblem(null), setProblem);
    };
    addEventListener("hashchange", look);
    return () => removeEventListener("hashchange", look);
  }, []);
  return problem;
}

function App({ arrivalProblem }) {
  const codeProblem = useCodes(arrivalProblem);
  const route = useRoute();
  const isSignedIn = useStore(signedIn);
  const isReachable = useStore(reachable);
  const [showsKeys, setShowsKeys] = useState(false);
  const main = useRef();
  document.documentElement.lang = useStore(languageStore) === "zh" ? "zh-CN" : "en";
  useArrival(route, main, isSignedIn);
  useTabTitle(useStore(waiting));
  useKeys({ "?": () => setShowsKeys(true) });
  useEffect(() => (isSignedIn ? startWatch() : rememberPlace()), [isSignedIn]);
  return html`<div class=${isSignedIn ? `frame page-${route.page}` : "frame"}>
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>${t("skip")}</a>
    <${Header} page=${route.page} onKeys=${() => setShowsKeys(true)} isSignedIn=${isSignedIn} />
    ${!isReachable && html`<div class="offline" role="status">${t("offline")}</div>`}
    ${isSignedIn && html`<${NoWalls} />`}
    <main class="main" id="main" tabindex="-1" ref=${main}>
      ${isSignedIn ? html`<${Page} route=${route} />` : html`<${SignIn} problem=${codeProblem} />`}
    </main>
    <${Announcer} />
    ${showsKeys && html`<${KeyHelp} onClose=${() => setShowsKeys(false)} />`}
  </div>`;
}

/** Whoever has a link sees its question and nothing else, also in a browser that is signed in. */
async function startGuest(link) {
  const { Guest } = await import("./pages/guest.js");
  const place = document.getElementById("app");
  place.replaceChildren();
  render(html`<${Guest} link=${link} />`, place);
}

async function start() {
  const link = takeLink();
  // From the page to a link and back only the part behind `#` changes; they are two pages all the same.
  addEventListener("hashchange", () => (isLinkAddress() || link !== null) && location.reload());
  if (link !== null) return startGuest(link);
  const code = takeCode();
  const arrival = code === null ? lookForSession() : signInByCode(code);
  PAGES[currentRoute().page][0]().catch(() => {}); // its modules come meanwhile; the page itself tells if they do not
  const problem = await arrival.then(() => null, (error) => error);
  const place = document.getElementById("app");
  place.replaceChildren(); // the word that stood there until now
  render(html`<${App} arrivalProblem=${problem} />`, place);
}

start();
