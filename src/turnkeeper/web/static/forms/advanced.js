// The options that most people leave alone, as fields of the same kind as the skill's own. Pure.

import { TIMEOUTS } from "./request.js";
import { describe } from "./schema.js";
import { fill, said, tidy } from "./values.js";

const YEAR = 365 * 24 * 3600;
const MODEL = "^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$";
const seconds = (say, key, given) => ({
  type: "number",
  exclusiveMinimum: 0,
  maximum: YEAR,
  "x-plain": true,
  title: say(`new.${key}`),
  description: say(`new.${key}.help`),
  ...(given !== undefined && { examples: [given] }),
});
const oneOf = (say, key, values) => ({
  title: say(`new.${key}`),
  description: say(`new.${key}.help`),
  default: values[0],
  oneOf: values.map((value) => ({ const: value, title: say(`new.${key}.${value}`) })),
});

/** The options as a schema; `say` gives the words, so that this needs no language of its own. */
export function optionsNode({ engine, skill, mode, permissions, say }) {
  const isInteractive = mode === "interactive";
  const kinds = permissions === "allow" ? (engine?.profiles ?? []) : ["sticky_process"];
  const properties = {
    model: modelSchema(engine, say),
    ...(isInteractive && {
      interactive_require_user_reply: {
        type: "boolean",
        default: true,
        title: say("new.strict"),
        description: say("new.strict.help"),
      },
      session_timeout_sec: seconds(say, "session_timeout_sec"),
      interactive_profile: oneOf(say, "interactive_profile", ["auto", ...kinds]),
    }),
    on_interrupted: oneOf(say, "on_interrupted", ["resume", "fail"]),
    timeouts: {
      type: "object",
      additionalProperties: false,
      title: say("new.timeouts"),
      description: say("new.timeouts.help"),
      properties: Object.fromEntries(TIMEOUTS.map((name) => [name, seconds(say, name, skill.timeouts?.[name])])),
    },
  };
  const node = describe({ type: "object", additionalProperties: false, properties });
  return {
    ...node,
    fields: node.fields.map((field) => (field.key === "timeouts" ? { ...field, required: true } : field)),
  };
}

function modelSchema(engine, say) {
  const words = { title: say("new.model"), description: say("new.model.help") };
  if (engine?.models?.length) return { ...words, enum: engine.models };
  return { ...words, type: "string", pattern: MODEL, maxLength: 200, "x-plain": true };
}

/** The drafts that say these options, and the options that the drafts say. */
export const optionsDraft = (node, options) => ({ ...fill(node, options), extra: {} });
export const optionsSaid = (node, draft) => said(node, tidy(node, draft)) ?? {};
