// The whole form as the request that it stands for, and back: the body of POST /v1/jobs, curl, and the files. Pure.

import { filesOf } from "./schema.js";
import { fill, parsed, said, tidy } from "./values.js";

export const TIMEOUTS = ["first_byte_sec", "idle_sec", "turn_sec", "result_grace_sec", "step_sec"];
const INTERACTIVE_ONLY = ["interactive_require_user_reply", "session_timeout_sec", "interactive_profile"];
/** What the service takes for granted, so that a request need not say it. */
const USUAL = {
  permissions: "allow",
  interactive_require_user_reply: true,
  interactive_profile: "auto",
  on_interrupted: "resume",
};

/** A group is `input` or `parameter`: `{node, draft, json}`; `json` is the text while it is edited as JSON, else null. */
export function valueOf(group) {
  if (group.json === null) return said(group.node, tidy(group.node, group.draft)) ?? {};
  return group.json.trim() === "" ? {} : parsed(group.json).value;
}

/** The form `{skillId, engine, mode, permissions, input, parameter, options}` as a body; what is usual is left out. */
export function bodyOf(form) {
  const input = { ...valueOf(form.input), ...announced(form.input) };
  const parameter = valueOf(form.parameter);
  const chosen = { execution_mode: form.mode, permissions: form.permissions, ...form.options };
  return {
    skill_id: form.skillId,
    engine: form.engine,
    ...(Object.keys(Object(input)).length && { input }),
    ...(Object.keys(Object(parameter)).length && { parameter }),
    ...Object.fromEntries(Object.entries(chosen).filter(([name, value]) => isWorthSaying(name, value, form.mode))),
  };
}

function isWorthSaying(name, value, mode) {
  if (value === undefined || value === "" || value === USUAL[name]) return false;
  if (mode === "auto" && INTERACTIVE_ONLY.includes(name)) return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

/** An optional file is waited for only if the job names it. */
function announced(group) {
  const chosen = filesOf(group.node).filter((field) => !field.required && group.draft.fields[field.key].length);
  return Object.fromEntries(chosen.map((field) => [field.key, namesOf(group, field)]));
}

function namesOf(group, field) {
  const names = partsOf(group)
    .filter((part) => part.key === field.key)
    .map((part) => part.name);
  return field.many ? names : names[0];
}

/** The parts of the upload `{key, file, name}`: the service wants every name once. */
export function partsOf(group) {
  const taken = new Set();
  return filesOf(group.node).flatMap((field) =>
    group.draft.fields[field.key].map((file) => ({ key: field.key, file, name: unique(file.name, taken) })),
  );
}

function unique(name, taken) {
  const dot = name.lastIndexOf(".") > 0 ? name.lastIndexOf(".") : name.length;
  let free = name;
  for (let number = 2; taken.has(free.toLowerCase()); number += 1)
    free = `${name.slice(0, dot)}-${number}${name.slice(dot)}`;
  taken.add(free.toLowerCase());
  return free;
}

/** A group that shows `value`: as JSON where the fields could not say the same. */
export function groupOf(node, value) {
  const draft = fill(node, value);
  const hidden = new Set(filesOf(node).map((field) => field.key));
  const given = Object.fromEntries(Object.entries(value).filter(([name]) => !hidden.has(name)));
  const shown = said(node, draft) ?? {};
  const isLossless = Object.entries(given).every(
    ([name, each]) => JSON.stringify(sorted(shown[name])) === JSON.stringify(sorted(each)),
  );
  return { node, draft, json: isLossless ? null : JSON.stringify(given, null, 2) };
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name])]),
  );
}

/** The options of a stored request, as the form holds them. */
export function optionsOf(request) {
  const profile = request.interactive_profile;
  const found = {
    model: request.model,
    interactive_require_user_reply: request.interactive_require_user_reply,
    session_timeout_sec: request.session_timeout_sec,
    interactive_profile: profile?.kind ?? profile,
    timeouts: request.timeouts,
    on_interrupted: request.on_interrupted,
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined && value !== null));
}

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;
const AUTH = '-H "Authorization: Bearer $TOKEN"';

/** The same as commands: one that creates the run, and one that brings its files, if there are any. */
export function curlOf(body, parts, origin) {
  const job = quoted(JSON.stringify(body, null, 2));
  const create = `curl ${AUTH} -H 'Content-Type: application/json' \\\n  ${origin}/v1/jobs -d ${job}`;
  if (!parts.length) return create;
  const named = ({ file, name }) => (name === file.name ? name : `${file.name};filename=${name}`);
  const files = parts.map((part) => `-F ${quoted(`${part.key}=@${named(part)}`)}`).join(" ");
  return `${create}\n\ncurl ${AUTH} ${files} \\\n  ${origin}/v1/jobs/$RUN/upload`;
}
