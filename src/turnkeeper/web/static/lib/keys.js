// Keys that work anywhere on a page, as long as nobody is writing and no dialog is open.
import { useEffect, useRef } from "./preact.js";

const WRITING = "input, textarea, select, [contenteditable]";

function isFree(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return false;
  if (document.querySelector("dialog[open]")) return false;
  return !event.target.closest?.(WRITING);
}

/** `{"/": () => …}` by the key's name; "digit" gets 1 to 9 as a number. */
export function useKeys(actions) {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    const pressed = (event) => {
      if (!isFree(event)) return;
      const action = latest.current[event.key];
      const digit = /^[1-9]$/.test(event.key) && latest.current.digit;
      if (!action && !digit) return;
      if ((action ? action(event) : digit(Number(event.key))) !== false) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
