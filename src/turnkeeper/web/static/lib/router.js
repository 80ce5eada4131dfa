// Where we are, from the part of the address behind `#`. Links such as <a href="#/skills"> need nothing of this.
import { createStore, useStore } from "./store.js";

const PAGES = [
  ["inbox", /^\/?$/],
  ["run", /^\/runs\/([^/]+)$/],
  ["new", /^\/new$/],
  ["skills", /^\/skills$/],
  ["skill", /^\/skills\/([^/]+)$/],
  ["engines", /^\/engines$/],
];

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** "#/runs/01a1?x=1" is `{page: "run", id: "01a1", query: {x: "1"}, path: "/runs/01a1"}`. */
export function readHash(hash) {
  const [path, search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const query = Object.fromEntries(new URLSearchParams(search));
  for (const [page, pattern] of PAGES) {
    const found = pattern.exec(path);
    if (found) return { page, id: found[1] === undefined ? undefined : decoded(found[1]), query, path };
  }
  return { page: "lost", query, path };
}

const route = createStore(readHash(location.hash));
addEventListener("hashchange", () => route.set(readHash(location.hash)));

const asHash = (path) => (path.startsWith("#") ? path : `#${path}`);

export function go(path) {
  location.hash = asHash(path);
}

/** Changes the address without a step that "back" would undo: for filters and codes. */
export function replace(path) {
  history.replaceState(null, "", location.pathname + location.search + asHash(path));
  route.set(readHash(location.hash));
}

export const useRoute = () => useStore(route);
export const currentRoute = () => route.get();
