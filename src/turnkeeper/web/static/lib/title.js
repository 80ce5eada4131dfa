// The title and the icon of the tab: where we are, and how many runs wait for a person.
import { useEffect } from "./preact.js";
import { createStore, useStore } from "./store.js";

const place = createStore("");

/** A page that knows better than its name in the menu what it shows, such as the skill of a run. */
export const setTitle = (text) => place.set(text);

export function useTabTitle(waiting) {
  const text = useStore(place);
  useEffect(() => {
    const name = text ? `${text} · Turnkeeper` : "Turnkeeper";
    document.title = waiting ? `(${waiting}) ${name}` : name;
    const icon = document.getElementById("icon");
    const wanted = waiting ? "/static/icon-waiting.svg" : "/static/icon.svg";
    if (icon && icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
  }, [text, waiting]);
}
