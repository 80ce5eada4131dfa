// What is wrong with a draft, before the service is asked: pointers and keys of words. Pure.
// It is kinder than the service where they could disagree (patterns that a browser cannot read, formats).

import { filled, isBlankText, parsed, said } from "./values.js";

const fault = (at, key, values) => ({ at, key: `form.fault.${key}`, values });

/** The pointer of what is inside: `input` and `topic` are `input/topic`. */
export const below = (at, part) => `${at && `${at}/`}${String(part).replace(/~/g, "~0").replace(/\//g, "~1")}`;

/** Every fault of a draft and of all below it, in the order of the fields. */
export function faults(node, draft, at) {
  return isLeftOut(node, draft) ? missing(node, draft, at) : CHECKS[node.kind](node, draft, at);
}

function isLeftOut(node, draft) {
  if (node.kind === "object") return !draft.on;
  if (node.kind === "list") return filled(draft).length === 0;
  return draft === null || isBlankText(draft) || (Array.isArray(draft) && draft.length === 0);
}

const WORDS_OF_MISSING = { choice: "chooseOne", boolean: "chooseOne", file: "fileMissing" };

function missing(node, draft, at) {
  if (!node.required || node.nullable) return [];
  if (node.kind === "list" || node.kind === "choices") return tooMany(node, [], at);
  return said(node, draft) === undefined ? [fault(at, WORDS_OF_MISSING[node.kind] || "missing")] : [];
}

const CHECKS = {
  text: checkText,
  number: checkNumber,
  json: (node, draft, at) => (parsed(draft).error ? [fault(at, "json", { reason: parsed(draft).error })] : []),
  choice: () => [],
  boolean: () => [],
  file: (node, draft, at) => tooMany(node, draft, at),
  choices: (node, draft, at) => tooMany(node, draft, at),
  list: checkList,
  map: checkMap,
  object: (node, draft, at) =>
    node.fields.flatMap((field) => faults(field, draft.fields[field.key], below(at, field.key))),
};

function checkText({ rules }, draft, at) {
  const length = [...draft].length;
  if (length < rules.minLength) return [fault(at, "tooShort", { count: rules.minLength, length })];
  if (length > rules.maxLength) return [fault(at, "tooLong", { count: rules.maxLength, length })];
  return matches(rules.pattern, draft) ? [] : [fault(at, "pattern", { pattern: rules.pattern })];
}

/** Repeated repetitions can keep a browser busy for ever; the service has a way that cannot. */
const RISKY = /\([^)]*[*+}][^)]*\)[*+{]/;

function matches(pattern, text) {
  if (typeof pattern !== "string" || text.length > 10_000 || RISKY.test(pattern)) return true;
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true; // the service reads it in its own way
  }
}

/** Each rule of a number: what it says of one that breaks it. */
const LIMITS = [
  ["minimum", "tooSmall", (value, limit) => value < limit],
  ["exclusiveMinimum", "notAbove", (value, limit) => value <= limit],
  ["maximum", "tooLarge", (value, limit) => value > limit],
  ["exclusiveMaximum", "notBelow", (value, limit) => value >= limit],
  ["multipleOf", "notMultiple", (value, step) => Math.abs(value / step - Math.round(value / step)) > 1e-9],
];

function checkNumber({ rules, whole }, draft, at) {
  const text = draft.trim();
  const value = Number(text);
  if (!/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) || !Number.isFinite(value)) return [fault(at, "number")];
  if (whole && !Number.isInteger(value)) return [fault(at, "whole")];
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return [fault(at, "unsafe")];
  const broken = LIMITS.find(([name, , breaks]) => name in rules && breaks(value, rules[name]));
  return broken ? [fault(at, broken[1], { limit: rules[broken[0]] })] : [];
}

function tooMany({ rules }, draft, at) {
  if (draft.length < rules.minItems) return [fault(at, "tooFew", { count: rules.minItems })];
  if (draft.length > rules.maxItems) return [fault(at, "tooMany", { count: rules.maxItems })];
  return [];
}

function checkList(node, draft, at) {
  const inside = draft.flatMap((each, index) => faults(node.item, each.draft, below(at, index)));
  const values = draft.map((each) => JSON.stringify(said(node.item, each.draft)));
  const isRepeated = node.rules.uniqueItems && new Set(values).size < values.length;
  return [...tooMany(node, draft, at), ...(isRepeated ? [fault(at, "repeated")] : []), ...inside];
}

function checkMap(node, draft, at) {
  const names = draft.map((each) => each.name.trim());
  return draft.flatMap((each, index) => {
    const place = mapPlace(at, draft, index);
    if (isBlankText(each.draft)) return [];
    if (names[index] === "") return [fault(place, "nameMissing")];
    if (names.indexOf(names[index]) < index) return [fault(place, "nameTwice", { name: names[index] })];
    return faults(node.value, each.draft, place);
  });
}

/** Where a row of a map is: by its name, as the service calls it; one without a name by its number. */
export const mapPlace = (at, draft, index) => below(at, draft[index].name.trim() || `(${index + 1})`);
