// The event stream of a run, read by fetch: it tells why it was refused, which EventSource does not.
import { ask } from "../lib/api.js";

/** Longer than the heartbeat of the service: after this silence the connection is dead. */
const SILENCE_MS = 40_000;

/** Cuts the text of a stream into frames `{event, id, data}`; a piece may end anywhere. */
export function frames() {
  let rest = "";
  return (piece) => {
    const blocks = (rest + piece).split("\n\n");
    rest = blocks.pop();
    return blocks.map(readFrame).filter((frame) => frame.data !== "");
  };
}

function readFrame(block) {
  const frame = { event: "message", id: null, data: "" };
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) frame[line.slice(0, at)] = line.slice(at + 2);
  }
  return frame;
}

/** Follows until the stream ends; true if it ended because the run did. `take` gets each `(event, data)` list. */
export async function follow(runId, after, take, signal) {
  const control = new AbortController();
  const stop = () => control.abort();
  signal.addEventListener("abort", stop);
  let timer = setTimeout(stop, SILENCE_MS);
  try {
    const headers = { "Last-Event-ID": String(after), Accept: "text/event-stream" };
    const answer = await ask(`/v1/jobs/${runId}/events`, { headers, signal: control.signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const cut = frames();
    let isOver = false;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return isOver;
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MS);
      const told = cut(value).map(({ event, data }) => [event, JSON.parse(data)]);
      isOver ||= told.some(([event]) => event === "end");
      take(told);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    control.abort();
  }
}
