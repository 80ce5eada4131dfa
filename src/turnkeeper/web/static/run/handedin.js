// Finds the result in an agent's message, so that it is shown as a result and not as a wall of JSON.
const MARKER = /\\?"__SKILL_DONE__\\?"\s*:\s*true/;
const FENCE = /^```(?:json)?[ \t]*\n([\s\S]*?)\n```[ \t]*$/gim;

function asObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

function withoutMarker({ __SKILL_DONE__: _, ...rest }) {
  return rest;
}

/** `{before, value}`: the words before it and the object; null if the message holds no result of this plain form. */
export function handedIn(text) {
  const whole = text.trim();
  if (!MARKER.test(whole) && !whole.startsWith("{")) return null;
  const object = whole.startsWith("{") ? asObject(whole) : null;
  if (object) return { before: "", value: withoutMarker(object) };
  const last = [...whole.matchAll(FENCE)].at(-1);
  const fenced = last && asObject(last[1]);
  return fenced ? { before: whole.slice(0, last.index).trim(), value: withoutMarker(fenced) } : null;
}
