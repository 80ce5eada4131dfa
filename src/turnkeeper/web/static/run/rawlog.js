// Pages of a raw log as bytes. A page may end in the middle of a character, so they are decoded as a whole.
import { ask } from "../lib/api.js";

export const PAGE = 64 * 1024;

export const logAddress = (runId, log) => `/v1/jobs/${runId}/logs/${log.attempt}/${log.try}/${log.stream}`;

/** `{from, bytes, size}`: bytes of the log from an offset on, and how large the log is by now. */
export async function readBytes(runId, log, offset, length, signal) {
  const answer = await ask(logAddress(runId, log), { params: { offset, length }, signal });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  return { from: offset, bytes, size: Number(answer.headers.get("X-Log-Size") ?? offset + bytes.length) };
}

/** The last page: mostly what one is looking for is at the end. */
export function readEnd(runId, log, signal) {
  const from = Math.max(0, log.size - PAGE);
  return readBytes(runId, log, from, PAGE * 2, signal);
}

function concat(first, second) {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}

export async function readEarlier(runId, log, shown, signal) {
  const from = Math.max(0, shown.from - PAGE);
  const page = await readBytes(runId, log, from, shown.from - from, signal);
  return { ...shown, from, bytes: concat(page.bytes, shown.bytes) };
}

export async function readLater(runId, log, shown, signal) {
  const page = await readBytes(runId, log, shown.from + shown.bytes.length, PAGE, signal);
  return { from: shown.from, bytes: concat(shown.bytes, page.bytes), size: page.size };
}

/** Without the rest of a character whose beginning is on the page before. */
export function asText({ from, bytes }) {
  let start = 0;
  while (from > 0 && start < 4 && (bytes[start] & 0xc0) === 0x80) start += 1;
  return new TextDecoder().decode(bytes.subarray(start));
}
