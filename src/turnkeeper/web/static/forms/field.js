// Any field, by the kind that the schema asks for.

import { html } from "../lib/preact.js";
import { FileField } from "./files.js";
import { ListField, MapField, ObjectField } from "./several.js";
import { Choice, Choices, JsonBox, NumberField, Text, Truth } from "./simple.js";

const FIELDS = {
  text: Text,
  number: NumberField,
  boolean: Truth,
  choice: Choice,
  choices: Choices,
  json: JsonBox,
  file: FileField,
  list: ListField,
  map: MapField,
  object: ObjectField,
};

/** `{node, draft, at, form, label, onChange}`: `label` where the title is not shown. */
export function Field(given) {
  return html`<${FIELDS[given.node.kind]} ...${given} />`;
}
