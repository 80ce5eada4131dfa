// Brings a job to the service: creates the run once, however often it is tried, then uploads its files with progress.

import { pageKeyHeader } from "../lib/pagekey.js";
import { api, asProblem, Problem, signedIn } from "../lib/api.js";

/** A new key for each thing that is meant; `crypto.randomUUID` is missing on plain HTTP. */
function randomKey() {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return `page-${Array.from(numbers, (each) => each.toString(16).padStart(8, "0")).join("")}`;
}

/** Creates runs; the same body again, after a lost answer or a double click, is the same run. */
export function creator() {
  let last = { text: "", key: "" };
  return (body) => {
    const text = JSON.stringify(body);
    if (last.text !== text) last = { text, key: randomKey() };
    return api.post("/v1/jobs", body, { headers: { "Idempotency-Key": last.key } });
  };
}

/** `fetch` does not tell how far an upload is; this does: `onProgress(sent, total)`. */
export function send(path, form, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(pageKeyHeader())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress(event.loaded, event.total);
    request.onerror = () => reject(new Problem(0, "UNREACHABLE", "the upload was cut off"));
    request.onabort = () => reject(new DOMException("aborted", "AbortError"));
    request.onload = () => settle(request, resolve, reject);
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

function settle(request, resolve, reject) {
  if (request.status === 401) signedIn.set(false);
  if (request.status < 200 || request.status > 299) return reject(asProblem(request.status, request.responseText));
  try {
    return resolve(JSON.parse(request.responseText));
  } catch {
    return reject(new Problem(0, "UNREACHABLE", "the answer of the service was cut off"));
  }
}

/** The files of a run. If they had come already and only the answer was lost, that is as good. */
export async function uploadFiles(runId, parts, onProgress, signal) {
  const form = new FormData();
  for (const part of parts) form.append(part.key, part.file, part.name);
  try {
    await send(`/v1/jobs/${encodeURIComponent(runId)}/upload`, form, onProgress, signal);
  } catch (error) {
    if (error.code !== "UPLOAD_NOT_EXPECTED") throw error;
  }
}
