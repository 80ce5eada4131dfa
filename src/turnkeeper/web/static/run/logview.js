// The raw log of a run in a dialog: which attempt and stream, the last part first, earlier parts on demand.
import { api } from "../lib/api.js";
import { Icon } from "../lib/icons.js";
import { Button, Dialog, Loading, Problem } from "../lib/parts.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/preact.js";
import { bytes, t } from "../lib/words.js";
import { asText, logAddress, readEarlier, readEnd, readLater } from "./rawlog.js";

const nameOf = (log) => `${log.attempt}.${log.try}.${log.stream}`;
function titleOf({ attempt, try: number, stream, size }) {
  const values = { n: attempt, m: number, stream, size: bytes(size) };
  return t(number > 1 ? "log.name.try" : "log.name", values);
}

/** The newest log that says something. */
function best(logs) {
  const speaking = logs.filter((log) => log.size > 0);
  return speaking.findLast((log) => log.stream === "stdout") ?? speaking.at(-1) ?? logs.at(-1);
}

function Text({ runId, log }) {
  const [shown, setShown] = useState(null);
  const [error, setError] = useState(null);
  const box = useRef();
  const keep = useRef("end");
  const load = (how, reading) => {
    const height = box.current?.scrollHeight ?? 0;
    return reading.then(
      (next) => ((keep.current = how === "earlier" ? height : "end"), setShown(next), setError(null)),
      setError,
    );
  };
  useEffect(() => void load("end", readEnd(runId, log)), [nameOf(log)]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const { scrollHeight: height, scrollTop: top } = element;
    element.scrollTop = keep.current === "end" ? height : top + height - keep.current;
  }, [shown]);
  if (error) return html`<${Problem} error=${error} retry=${() => load("end", readEnd(runId, log))} />`;
  if (!shown) return html`<${Loading} />`;
  const end = shown.from + shown.bytes.length;
  const earlier = () => load("earlier", readEarlier(runId, log, shown));
  const later = () => load("end", readLater(runId, log, shown));
  const range = { part: bytes(shown.bytes.length), size: bytes(shown.size) };
  return html`<div class="row wrap">
      <${Button} disabled=${shown.from === 0} onClick=${earlier}>${t("log.earlier")}<//>
      <${Button} onClick=${later}>${t("log.later")}<//>
      <span class="muted small grow">${t(end < shown.size ? "log.part" : "log.range", range)}</span>
      <a class="button" href=${logAddress(runId, log)} download=${`${runId}.${nameOf(log)}.log`}>
        <${Icon} name="download" />${t("log.whole")}</a>
    </div>
    <pre class="raw-log" ref=${box} tabindex="0" role="log" aria-live="off"
      aria-label=${t("action.log")}>${asText(shown) || t("log.empty")}</pre>`;
}

export function LogDialog({ runId, onClose }) {
  const [logs, setLogs] = useState(null);
  const [chosen, setChosen] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    const take = (body) => (setLogs(body.logs), setChosen(best(body.logs) ?? null));
    api.get(`/v1/jobs/${runId}/logs`).then(take, setError);
  }, [runId]);
  const choose = (event) => setChosen(logs.find((log) => nameOf(log) === event.currentTarget.value));
  return html`<${Dialog} title=${t("action.log")} onClose=${onClose} wide>
    <${Problem} error=${error} />
    ${!logs && !error && html`<${Loading} />`}
    ${logs && !chosen && html`<p class="muted">${t("log.none")}</p>`}
    ${chosen && html`<select aria-label=${t("log.which")} value=${nameOf(chosen)} onChange=${choose}>
        ${logs.map((log) => html`<option key=${nameOf(log)} value=${nameOf(log)}>${titleOf(log)}</option>`)}</select>
      <${Text} key=${nameOf(chosen)} runId=${runId} log=${chosen} />`}
  <//>`;
}
