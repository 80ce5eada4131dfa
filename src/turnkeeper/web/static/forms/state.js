// The form of a new run as one value: how it begins, what may be chosen together, and what is wrong with it. Pure.

import { optionsDraft, optionsNode, optionsSaid } from "./advanced.js";
import { below, faults } from "./check.js";
import { place, places } from "./errors.js";
import { bodyOf, groupOf, optionsOf } from "./request.js";
import { describe, filesOf } from "./schema.js";
import { blank, parsed } from "./values.js";

/** The form for a skill: as `request` has it (a run to repeat), else with the defaults of the schemas. */
export function begin({ skill, schemas, engines, request, lastEngine, lastMode, say }) {
  const form = {
    skill,
    engines: allowed(skill, engines),
    input: group(schemas.input, request?.input),
    parameter: unasked(group(schemas.parameter, request?.parameter)),
    mode: firstOf(skill.execution_modes, [request?.execution_mode, lastMode, "interactive"]),
    permissions: request?.permissions ?? "allow",
    kept: request ? optionsOf(request) : {},
    say,
  };
  return rebased({ ...form, engine: firstEngine(form.engines, [request?.engine, lastEngine, engines.find((each) => each.default)?.name]) });
}

const allowed = (skill, engines) => engines.filter((engine) => skill.engines.includes(engine.name));

/** The same form when the engines were looked at again. */
export function refreshed(form, skill, engines) {
  const found = allowed(skill, engines);
  return rebased({ ...form, skill, engines: found, engine: firstEngine(found, [form.engine]) });
}

function group(schema, value) {
  const node = describe(schema);
  return value ? groupOf(node, value) : { node, draft: blank(node), json: null };
}

/** Parameters of a skill that wants none are there for those who know better: no row to begin with. */
const unasked = (parameter) =>
  parameter.node.anything ? { ...parameter, draft: parameter.draft.filter((row) => row.draft !== "") } : parameter;

const firstOf = (allowed, wishes) => wishes.find((wish) => allowed.includes(wish)) ?? allowed[0];

/** What was wished for, else a real engine, else the demo; only what is ready. */
function firstEngine(engines, wishes) {
  const ready = engines.filter((engine) => engine.ready).map((engine) => engine.name);
  return firstOf(ready, [...wishes, ready.find((name) => name !== "demo")]) ?? null;
}

export const engineOf = (form) => form.engines.find((engine) => engine.name === form.engine);

/** After another engine, mode or permission: what no longer goes with it is taken back, what was typed is kept. */
export function rebased(form) {
  const permissions = permissionsOf(form).some((each) => each.value === form.permissions && !each.reason)
    ? form.permissions
    : "allow";
  const kept = { ...form.kept, ...(form.optionsNode && optionsSaid(form.optionsNode, form.options)) };
  const node = optionsShown({ ...form, permissions });
  return { ...form, permissions, kept, optionsNode: node, options: optionsDraft(node, kept) };
}

/** The fields of the options, in the language of now: somebody may change it in the middle of the form. */
export const optionsShown = (form) => optionsNode({ ...form, engine: engineOf(form) });

/** `{value, reason, fix}`: what an agent that asks may be told; with a reason it cannot be chosen now. */
export function permissionsOf(form) {
  const engine = engineOf(form);
  return (engine?.permissions ?? ["allow"]).map((value) => ({ value, ...closed(value, engine, form.mode) }));
}

function closed(permission, engine, mode) {
  if (permission === "ask" && mode === "auto") return { reason: { key: "new.permissions.needsInteractive" } };
  if (permission !== "allow" && engine.resident && !engine.resident.ready) {
    return {
      reason: { key: "new.permissions.needsResident", values: { reason: engine.resident.reason } },
      fix: engine.resident.fix,
    };
  }
  return {};
}

const asRequest = (form) => ({
  skillId: form.skill.id,
  engine: form.engine ?? undefined,
  mode: form.mode,
  permissions: form.permissions,
  input: form.input,
  parameter: form.parameter,
  options: optionsSaid(form.optionsNode, form.options),
});

export const requestOf = (form) => bodyOf(asRequest(form));

/** Everything that is wrong, from the top of the page to its end: `{at, key, values}`. */
export function formFaults(form) {
  return [
    ...groupFaults(form.input, "input"),
    ...groupFaults(form.parameter, "parameter"),
    ...(form.engine ? [] : [{ at: "engine", key: "form.fault.engine" }]),
    ...form.optionsNode.fields.flatMap((field) => faults(field, form.options.fields[field.key], field.key)),
  ];
}

function groupFaults({ node, draft, json }, at) {
  if (json === null) return faults(node, draft, at);
  const files = { ...node, fields: filesOf(node) };
  return [...jsonFaults(json, at), ...(files.fields.length ? faults(files, draft, at) : [])];
}

function jsonFaults(json, at) {
  if (json.trim() === "") return [];
  const { value, error } = parsed(json);
  if (error) return [{ at, key: "form.fault.json", values: { reason: error } }];
  return value !== null && typeof value === "object" && !Array.isArray(value)
    ? []
    : [{ at, key: "form.fault.notObject" }];
}

/** The field that a refusal is about, where its code tells. */
const FIELD_OF = {
  ENGINE_NOT_READY: "engine",
  ENGINE_NOT_FOUND: "engine",
  SKILL_ENGINE_UNSUPPORTED: "engine",
  ENGINE_MODEL_UNKNOWN: "model",
  INTERACTIVE_PROFILE_UNSUPPORTED: "interactive_profile",
  PERMISSION_POLICY_UNSUPPORTED: "permissions",
  SKILL_EXECUTION_MODE_UNSUPPORTED: "execution_mode",
};

/** Every field that the form shows now: `{at, title}`. */
export function formPlaces(form) {
  const choices = [
    ["engine", "new.engine"],
    ["execution_mode", "new.mode"],
    ["permissions", "new.permissions"],
  ];
  return [
    ...groupPlaces(form.input, "input", form.say),
    ...groupPlaces(form.parameter, "parameter", form.say),
    ...choices.map(([at, key]) => ({ at, title: form.say(key) })),
    ...optionsShown(form).fields.flatMap((field) => places(field, form.options.fields[field.key], field.key)),
  ];
}

function groupPlaces({ node, draft, json }, at, say) {
  const title = say(`new.${at}`);
  if (json === null) return places(node, draft, at, title);
  return [{ at, title }, ...filesOf(node).map((field) => ({ at: below(at, field.key), title: field.title }))];
}

/** A refusal of the service as `{placed, others}`; one that says nothing of fields is in neither. */
export function refusal(problem, form) {
  if (problem.errors.length) return place(problem.errors, formPlaces(form));
  const at = FIELD_OF[problem.code];
  return { placed: at ? [{ at, text: problem.message }] : [], others: [] };
}
