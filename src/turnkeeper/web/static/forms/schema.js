// Reads a JSON Schema and says which field each part of it wants. Pure: it knows nothing of the page.
// What has no field of its own (unions, tuples, recursion) becomes a box for JSON; the service checks it all anyway.

const DEEPEST = 4;
const SHORT_TEXT = 200;
const LONG_NAMES =
  /(text|notes?|body|content|description|prompt|message|comment|markdown|details|instructions|brief|story|code|draft)$/i;
const WORDS_OF = {
  string: ["minLength", "maxLength", "pattern", "format", "contentMediaType"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  array: ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
  object: ["properties", "additionalProperties", "required"],
};
const RULES = [...WORDS_OF.string, ...WORDS_OF.number, "minItems", "maxItems", "uniqueItems"];
const SIMPLE = new Set(["text", "number", "boolean", "choice"]);

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
/** What should be a list or an object, and may be anything in a file that somebody wrote. */
const listIn = (value) => (Array.isArray(value) ? value : []);
const objectIn = (value) => (isObject(value) ? value : {});

/** The fields of a job's `input` or `parameter`. No schema: any names, any texts. */
export function describe(schema) {
  const root = objectIn(schema);
  const node = read(root, { root, refs: [], depth: 0, key: "" });
  if (node.kind === "object") return { ...node, required: true };
  return { ...base(root, ""), kind: "map", required: true, value: free(), anything: true };
}

/** The keys that come by upload, at the top only, as the service reads them. */
export const filesOf = (node) => (node.fields || []).filter((field) => field.kind === "file");

function free() {
  return { ...base({}, ""), kind: "text", multiline: true, tall: true, required: true };
}

function read(given, context) {
  const { schema, refs, isRecursive } = settle(given, context);
  const found = { ...context, refs };
  if (isRecursive || !isObject(schema)) return json({}, context.key);
  if (context.depth === 1 && schema["x-input-source"] === "file") return file(schema, context.key);
  const options = choices(schema, found);
  if (options) return { ...base(schema, context.key), kind: "choice", options };
  const [kind, nullable] = typeOf(schema);
  const make = Object.hasOwn(KINDS, kind) ? KINDS[kind] : json;
  return { ...make(schema, context.key, found), ...(nullable && { nullable }) };
}

const KINDS = {
  string: text,
  integer: (schema, key) => ({ ...base(schema, key), kind: "number", whole: true }),
  number: (schema, key) => ({ ...base(schema, key), kind: "number" }),
  boolean: (schema, key) => ({ ...base(schema, key), kind: "boolean" }),
  array: list,
  object,
};

function base(schema, key) {
  const { title, description, examples, default: given } = schema;
  const rules = Object.fromEntries(RULES.filter((name) => name in schema).map((name) => [name, schema[name]]));
  return {
    key,
    title: typeof title === "string" && title.trim() ? title : readable(key),
    description: typeof description === "string" ? description : "",
    ...(given !== undefined && { default: given }),
    example: Array.isArray(examples) ? examples[0] : undefined,
    rules,
    ...(schema["x-plain"] && { plain: true }),
  };
}

/** `first_name` reads as “First name”. */
export function readable(key) {
  const words = key
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/[_-]+/g, " ")
    .trim();
  return words ? words[0].toUpperCase() + words.slice(1) : key;
}

const json = (schema, key) => ({ ...base(schema, key), kind: "json" });

function file(schema, key) {
  const accept = [schema.contentMediaType, schema["x-accept"]].find((each) => typeof each === "string");
  return { ...base(schema, key), kind: "file", many: schema.type === "array", accept };
}

function text(schema, key) {
  const { maxLength, pattern, format, default: given, examples } = schema;
  const isDate = format === "date" && [given, examples?.[0]].every((each) => each === undefined || isDay(each));
  const isLine = format !== undefined || pattern !== undefined || maxLength <= SHORT_TEXT;
  const isLong =
    /^text\//.test(schema.contentMediaType) || maxLength > SHORT_TEXT || String(given ?? "").includes("\n");
  const tall = isLong || (!isLine && LONG_NAMES.test(key));
  return {
    ...base(schema, key),
    kind: "text",
    type: isDate ? "date" : inputType(format),
    multiline: isLong || !isLine,
    tall,
  };
}

const isDay = (value) => /^\d{4}-\d{2}-\d{2}$/.test(value);
const inputType = (format) => ({ email: "email", uri: "url", password: "password" })[format] || "text";

function list(schema, key, context) {
  if (schema.prefixItems || schema.items === false || context.depth >= DEEPEST) return json(schema, key);
  const item = read(schema.items ?? true, { ...context, depth: context.depth + 1, key: "" });
  if (item.kind === "choice" && schema.uniqueItems)
    return { ...base(schema, key), kind: "choices", options: item.options };
  if (!SIMPLE.has(item.kind) && item.kind !== "object") return json(schema, key);
  return { ...base(schema, key), kind: "list", item: { ...item, required: true } };
}

function object(schema, key, context) {
  if (context.depth >= DEEPEST) return json(schema, key);
  const required = listIn(schema.required);
  const inside = { ...context, depth: context.depth + 1 };
  const fields = Object.entries(objectIn(schema.properties))
    .filter(([, property]) => property !== false)
    .map(([name, property]) => ({ ...read(property, { ...inside, key: name }), required: required.includes(name) }));
  const open = schema.additionalProperties !== false;
  if (fields.length || !open) return { ...base(schema, key), kind: "object", fields, open };
  const value = read(schema.additionalProperties ?? true, { ...inside, key: "" });
  if (!SIMPLE.has(value.kind)) return json(schema, key);
  return { ...base(schema, key), kind: "map", value: { ...value, required: true } };
}

/** The type that counts, and whether null is allowed beside it; "" where a field cannot tell. */
function typeOf(schema) {
  const types = [schema.type ?? guessed(schema)].flat();
  const real = types.filter((type) => type !== "null");
  return [real.length === 1 ? real[0] : "", types.length > real.length];
}

const guessed = (schema) => Object.keys(WORDS_OF).find((type) => WORDS_OF[type].some((word) => word in schema)) || "";

/** The values to choose from, of `enum`, `const`, or a union of constants; undefined where anything goes. */
function choices(schema, context) {
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => option(value));
  if ("const" in schema) return [option(schema.const, schema.title)];
  const union = schema.oneOf || schema.anyOf;
  if (!Array.isArray(union)) return undefined;
  const each = union.map((part) => {
    const found = settle(part, context).schema;
    return isObject(found) && !found.oneOf && !found.anyOf ? choices(found, context) : undefined;
  });
  return each.length && each.every(Boolean) ? each.flat() : undefined;
}

const option = (value, title) => ({
  value,
  label: [title, value].find((each) => typeof each === "string" && each) ?? JSON.stringify(value),
});

/** The schema without `$ref`, `allOf` and "this or null", as far as these can be looked through. */
function settle(given, context) {
  let schema = given;
  let refs = context.refs;
  for (let steps = 0; isObject(schema) && steps < 50; steps += 1) {
    if (typeof schema.$ref === "string") {
      if (refs.includes(schema.$ref)) return { schema: {}, refs, isRecursive: true };
      const { $ref, ...beside } = schema;
      refs = [...refs, $ref];
      schema = { ...objectIn(lookUp(context.root, $ref)), ...beside };
    } else if (Array.isArray(schema.allOf) && schema.allOf.length) {
      const { allOf, ...own } = schema;
      schema = allOf.map((part) => settle(part, { ...context, refs }).schema).reduce(joined, own);
    } else if (orNull(schema)) {
      const { anyOf, oneOf, ...own } = schema;
      const other = settle(orNull(schema), { ...context, refs });
      if (other.isRecursive) return other;
      const found = objectIn(other.schema);
      schema = { ...found, ...own, type: [found.type ?? guessed(found), "null"].flat() };
    } else break;
  }
  return { schema, refs };
}

function orNull({ anyOf, oneOf }) {
  const union = anyOf || oneOf;
  if (!Array.isArray(union) || union.length !== 2) return undefined;
  const others = union.filter((part) => part?.type !== "null");
  return others.length === 1 && isObject(others[0]) ? others[0] : undefined;
}

function joined(one, other) {
  if (!isObject(other)) return one;
  const both = { ...other, ...one };
  if (one.properties || other.properties)
    both.properties = { ...objectIn(other.properties), ...objectIn(one.properties) };
  if (one.required || other.required) both.required = [...listIn(one.required), ...listIn(other.required)];
  return both;
}

function lookUp(root, ref) {
  if (ref === "#") return root;
  if (!ref.startsWith("#/")) return {};
  const parts = ref.slice(2).split("/").map(decoded);
  return parts.reduce((found, part) => found?.[part], root);
}

/** A part of a JSON pointer in an address. */
function decoded(part) {
  try {
    return decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~");
  } catch {
    return part;
  }
}
