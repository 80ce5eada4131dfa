// What the service found wrong, put at the fields it is about. Pure.

import { below, mapPlace } from "./check.js";

const REQUIRED = /^"((?:[^"\\]|\\.)*)" is a required property/;
const WRAPPERS = new Set(["body", "runtime_options"]);

/** `/input/topic: too short` as `{at: "input/topic", text: "too short"}`; without a pointer `at` is "". */
export function readError(line) {
  const found = /^\/?([^\s:]*(?:\/[^:]*)?): (.*)$/s.exec(line);
  if (!found) return { at: "", text: line };
  const parts = found[1].split("/").filter((part, index) => index > 0 || !WRAPPERS.has(part));
  const missing = REQUIRED.exec(found[2]);
  if (missing) return { at: below(parts.join("/"), JSON.parse(`"${missing[1]}"`)), text: found[2], isMissing: true };
  return { at: parts.join("/"), text: found[2] };
}

/** Each error at its field, or at the nearest one that holds it; `others` have no field at all. */
export function place(lines, fields) {
  const known = new Set(fields.map((field) => field.at));
  const placed = [];
  const others = [];
  for (const error of lines.map(readError)) {
    const at = nearest(error.at, known);
    if (at === undefined) others.push(error);
    else if (at === error.at) placed.push(error);
    else placed.push({ at, text: `${error.at.slice(at.length + 1)}: ${error.text}` });
  }
  return { placed, others };
}

function nearest(at, known) {
  for (let place = at; place; place = place.slice(0, Math.max(0, place.lastIndexOf("/")))) {
    if (known.has(place)) return place;
  }
  return undefined;
}

/** All fields that a draft shows: `{at, title}`. */
export function places(node, draft, at, title = node.title) {
  const inside = {
    object: () =>
      draft.on ? node.fields.flatMap((field) => places(field, draft.fields[field.key], below(at, field.key))) : [],
    list: () => draft.flatMap((row, index) => places(node.item, row.draft, below(at, index), `${title} ${index + 1}`)),
    map: () =>
      draft.map((row, index) => ({
        at: mapPlace(at, draft, index),
        title: row.name.trim() || `${title} ${index + 1}`,
      })),
  };
  return [{ at, title }, ...(inside[node.kind]?.() ?? [])];
}
