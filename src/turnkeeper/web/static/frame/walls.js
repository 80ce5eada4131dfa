// Says on every page that agents have no sandbox, if they have none. Asked once: it does not change while a service runs.
import { api } from "../lib/api.js";
import { useMay } from "../lib/me.js";
import { html, useEffect, useState } from "../lib/preact.js";
import { t } from "../lib/words.js";

export function NoWalls() {
  const [sandbox, setSandbox] = useState(null);
  const isTold = useMay("read");
  useEffect(() => {
    if (!isTold) return undefined;
    const abort = new AbortController();
    api.get("/v1/status", {}, { signal: abort.signal }).then((status) => setSandbox(status.sandbox), () => {});
    return () => abort.abort();
  }, [isTold]);
  if (sandbox?.effective !== "off") return null;
  return html`<div class="no-walls" role="note">${t("walls.none")} <span class="small">${sandbox.reason}</span></div>`;
}
