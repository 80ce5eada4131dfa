// What a field wants, as keys of words: limits, patterns, formats. Pure.

const FORMATS = new Set([
  "email",
  "uri",
  "date",
  "time",
  "date-time",
  "uuid",
  "hostname",
  "ipv4",
  "ipv6",
  "regex",
  "duration",
]);

const hint = (key, values) => ({ key: `form.hint.${key}`, values });

/** In the order in which they are worth reading; most fields have none. */
export function hintsOf(node) {
  const { rules, plain } = node;
  if (plain) return []; // its own words say it all
  return [
    ...(HINTS[node.kind]?.(node) ?? []),
    ...(FORMATS.has(rules.format) ? [hint(`format.${rules.format}`)] : []),
    ...(node.kind === "text" && rules.pattern ? [hint("pattern", { pattern: rules.pattern })] : []),
  ];
}

const HINTS = {
  text: ({ rules }) => between("length", rules.minLength > 1 ? rules.minLength : undefined, rules.maxLength),
  number: ({ rules, whole }) => [
    ...(whole ? [hint("whole")] : []),
    ...between("number", rules.minimum, rules.maximum),
    ...(rules.exclusiveMinimum === undefined ? [] : [hint("number.above", { least: rules.exclusiveMinimum })]),
    ...(rules.exclusiveMaximum === undefined ? [] : [hint("number.below", { most: rules.exclusiveMaximum })]),
    ...(rules.multipleOf === undefined ? [] : [hint("number.step", { step: rules.multipleOf })]),
  ],
  list: counted,
  choices: counted,
  file: counted,
};

function counted({ rules }) {
  return between("count", rules.minItems, rules.maxItems);
}

function between(what, least, most) {
  if (least !== undefined && most !== undefined)
    return [hint(`${what}.${least === most ? "exactly" : "between"}`, { least, most })];
  if (least !== undefined) return [hint(`${what}.least`, { least })];
  return most === undefined ? [] : [hint(`${what}.most`, { most })];
}

/** An example for the empty field, as text. */
export function exampleOf(node) {
  const { example } = node;
  if (example === undefined) return undefined;
  return typeof example === "string" && node.kind !== "json" ? example : JSON.stringify(example);
}
