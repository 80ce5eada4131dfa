// Between JSON and what stands in the fields: a draft is what a person has typed so far, right or wrong. Pure.
// text, number, json: the text. choice: the option's number as text. boolean: true, false or null (not said).
// list: rows {id, draft}. map: rows {id, name, draft}. object: {on, fields, extra}. choices: option numbers. file: File[].

let rows = 0;
const row = (draft, name) => ({ id: (rows += 1), draft, ...(name !== undefined && { name }) });

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const pretty = (value) => JSON.stringify(value, null, 2);

/** What a field shows at first: the schema's default, or nothing. */
export function blank(node) {
  if (node.default !== undefined && node.kind !== "file") return fill(node, node.default);
  return BLANK[node.kind](node);
}

const BLANK = {
  text: () => "",
  number: () => "",
  json: () => "",
  choice: (node) => (node.required && node.options.length === 1 ? "0" : ""),
  choices: () => [],
  boolean: (node) => (node.required ? false : null),
  file: () => [],
  list: (node) => Array.from({ length: firstRows(node) }, () => row(blank(node.item))),
  map: (node) => (node.anything ? [row("", "request")] : []),
  object: (node) => ({
    on: node.required,
    fields: Object.fromEntries(node.fields.map((field) => [field.key, blank(field)])),
    extra: {},
  }),
};

const MOST_FIRST_ROWS = 10;

function firstRows({ rules, required, item }) {
  if (!required) return 0;
  return Math.min(rules.minItems ?? (item.kind === "object" ? 0 : 1), MOST_FIRST_ROWS);
}

/** The draft that says `value`; where the field cannot say it, the field's own beginning. */
export function fill(node, value) {
  if (value === undefined || (value === null && node.kind !== "choice" && node.kind !== "json")) return empty(node);
  return FILL[node.kind](node, value);
}

const empty = (node) => ({ boolean: null, list: [], map: [] })[node.kind] ?? BLANK[node.kind](node);

const FILL = {
  text: (node, value) => (typeof value === "string" ? value : JSON.stringify(value)),
  number: (node, value) =>
    typeof value === "number" ? String(value) : typeof value === "string" ? value : JSON.stringify(value),
  json: (node, value) => pretty(value),
  choice: (node, value) => numberOf(node, value),
  choices: (node, value) =>
    [value]
      .flat()
      .map((each) => numberOf(node, each))
      .filter(Boolean),
  boolean: (node, value) => (typeof value === "boolean" ? value : null),
  file: () => [],
  list: (node, value) => [value].flat().map((each) => row(fill(node.item, each))),
  map: (node, value) => Object.entries(Object(value)).map(([name, each]) => row(fill(node.value, each), name)),
  object: fillObject,
};

function numberOf(node, value) {
  const index = node.options.findIndex((option) => same(option.value, value));
  return index < 0 ? "" : String(index);
}

function fillObject(node, value) {
  const given = isObject(value) ? value : {};
  const known = new Set(node.fields.map((field) => field.key));
  const filledIn = (field) => (Object.hasOwn(given, field.key) ? fill(field, given[field.key]) : blank(field));
  return {
    on: true,
    fields: Object.fromEntries(node.fields.map((field) => [field.key, filledIn(field)])),
    extra: Object.fromEntries(Object.entries(given).filter(([name]) => !known.has(name))),
  };
}

/** The JSON that a draft says; undefined: it is left out. A draft that is wrong may give anything. */
export function said(node, draft) {
  const value = SAID[node.kind](node, draft);
  return value === undefined && node.required && node.nullable ? null : value;
}

const SAID = {
  text: (node, draft) => (draft.trim() !== "" ? draft : isErased(node) ? "" : undefined),
  number: (node, draft) => (draft.trim() === "" ? undefined : Number(draft)),
  json: (node, draft) => (draft.trim() === "" ? undefined : parsed(draft).value),
  choice: (node, draft) => (draft === "" ? undefined : node.options[Number(draft)]?.value),
  choices: (node, draft) =>
    unlessLeftOut(
      node,
      [...draft].sort((a, b) => a - b).map((index) => node.options[index].value),
    ),
  boolean: (node, draft) => draft ?? undefined,
  file: () => undefined,
  list: (node, draft) =>
    unlessLeftOut(
      node,
      draft.map((each) => said(node.item, each.draft)).filter((each) => each !== undefined),
    ),
  map: (node, draft) =>
    unlessLeftOut(node, entries(draft.map((each) => [each.name.trim(), said(node.value, each.draft)]))),
  object: (node, draft) =>
    draft.on
      ? { ...entries(node.fields.map((field) => [field.key, said(field, draft.fields[field.key])])), ...draft.extra }
      : undefined,
};

const entries = (pairs) => Object.fromEntries(pairs.filter(([name, value]) => name !== "" && value !== undefined));

/** The service fills a default in for what is left out, so an empty text must be said where it is meant. */
const isErased = (node) => typeof node.default === "string" && node.default !== "" && !(node.rules.minLength > 0);

function unlessLeftOut(node, value) {
  const isEmpty = Object.keys(value).length === 0;
  return isEmpty && !node.required && node.default === undefined ? undefined : value;
}

/** The same without list rows that nobody filled in, so that rows and JSON are numbered alike. */
export function tidy(node, draft) {
  if (node.kind === "object") {
    const tidied = node.fields.map((field) => [field.key, tidy(field, draft.fields[field.key])]);
    return { ...draft, fields: Object.fromEntries(tidied) };
  }
  if (node.kind !== "list") return draft;
  const kept = filled(draft.map((each) => ({ ...each, draft: tidy(node.item, each.draft) })));
  return kept.length ? kept : draft;
}

export const isBlankText = (draft) => typeof draft === "string" && draft.trim() === "";
export const filled = (list) => list.filter((each) => !isBlankText(each.draft));

/** JSON that a person typed: `{value}`, or `{error}` with the reason. */
export function parsed(text) {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { error: error.message };
  }
}

/** A new row at the end of a list or a map. */
export const added = (node, draft) => [
  ...draft,
  node.kind === "map" ? row(blank(node.value), "") : row(blank(node.item)),
];
