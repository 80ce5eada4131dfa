// Speaks to the service: JSON in and out, every refusal as a Problem. Paths are written in full, such as "/v1/jobs".
import { noteServerTime } from "./clock.js";
import { pageKeyHeader } from "./pagekey.js";
import { createStore } from "./store.js";

/** False once the service has said that it does not know us; the app then shows the sign-in page. */
export const signedIn = createStore(true);

/** False while the service does not answer at all. */
export const reachable = createStore(true);

export class Problem extends Error {
  constructor(status, code, message, errors = [], facts = {}) {
    super(message);
    this.name = "Problem";
    this.status = status;
    this.code = code;
    this.errors = errors;
    this.facts = facts;
  }
}

const KNOWN = new Set(["type", "title", "status", "detail", "code", "error", "errors"]);

export function asProblem(status, text) {
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy in between may answer in HTML.
  }
  const facts = Object.fromEntries(Object.entries(body).filter(([name]) => !KNOWN.has(name)));
  const errors = Array.isArray(body.errors) ? body.errors.map(String) : [];
  return new Problem(status, body.code ?? `HTTP_${status}`, body.detail ?? `HTTP ${status}`, errors, facts);
}

function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) {
    const values = Array.isArray(value) ? value : [value];
    for (const each of values) if (each !== undefined && each !== null && each !== "") query.append(name, each);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** The bare answer, for streams and bytes; a refusal is thrown. A 401 signs us out unless `open` is set. */
export async function ask(path, { params, open = false, headers, ...options } = {}) {
  const sent = { credentials: "same-origin", cache: "no-store", headers: { ...pageKeyHeader(), ...headers }, ...options };
  let answer;
  try {
    answer = await fetch(address(path, params), sent);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    reachable.set(false);
    throw new Problem(0, "UNREACHABLE", "the service cannot be reached");
  }
  reachable.set(true);
  noteServerTime(answer.headers.get("Date"));
  if (answer.ok) return answer;
  const problem = asProblem(answer.status, await answer.text().catch(() => ""));
  if (answer.status === 401 && !open) signedIn.set(false);
  throw problem;
}

async function json(path, options) {
  const answer = await ask(path, options);
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "UNREACHABLE", "the answer of the service was cut off");
  }
}

const asJson = (body, headers = {}) => ({
  body: JSON.stringify(body ?? {}),
  headers: { "Content-Type": "application/json", ...headers },
});

export const api = {
  get: (path, params, options = {}) => json(path, { params, ...options }),
  post: (path, body, { headers, ...options } = {}) =>
    json(path, { method: "POST", ...asJson(body, headers), ...options }),
  del: (path, options = {}) => json(path, { method: "DELETE", ...options }),
  upload: (path, form, options = {}) => json(path, { method: "POST", body: form, ...options }),
};
