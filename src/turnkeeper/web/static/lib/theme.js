// Light, dark, or as the system says.
import { createStore } from "./store.js";

const KEPT_AS = "turnkeeper.theme"; // lib/early.js reads the same before the page is drawn
export const THEMES = ["system", "light", "dark"];
export const theme = createStore(document.documentElement.dataset.theme ?? "system");

export function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem(KEPT_AS, name);
  } catch {
    // not remembered, but shown from now on
  }
  theme.set(name);
}
