// A JSON Schema as rows for a reader: each value by its path, what it is, and what is said about it. Pure.

import { hintsOf } from "./hints.js";
import { describe } from "./schema.js";

/** `{path, type, required, description, hints, options, default}`, the outer before the inner. */
export const rowsOf = (schema) => rowsIn(describe(schema), "");

function rowsIn(node, path) {
  return (node.fields ?? []).flatMap((field) => rowsFor(field, path ? `${path}.${field.key}` : field.key));
}

function rowsFor(node, path) {
  const { item } = node;
  const row = {
    path,
    type: typeOf(node),
    required: node.required,
    description: node.description,
    hints: hintsOf(node),
    options: (node.options ?? item?.options ?? []).map((option) => option.label),
    default: node.default,
  };
  const inside = item?.kind === "object" ? rowsIn(item, `${path}[]`) : rowsIn(node, path);
  return [row, ...inside];
}

/** The key of the word for what a value is. */
function typeOf(node) {
  if (node.kind === "file") return node.many ? "files" : "file";
  if (node.kind === "number") return node.whole ? "integer" : "number";
  return node.kind === "list" ? `list.${node.item.kind}` : node.kind;
}
