// Says on every page that agents have no sandbox, if they have none. Asked once: it does not change while a service runs.
import { api } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/preact.js";
import { t } from "../lib/words.js";

export function NoWalls() {
  const [sandbox, setSandbox] = useState(null);
  useEffect(() => {
    const abort = new AbortController();
    // Who may not know how the service does is not told of this either.
    api.get("/v1/status", {}, { signal: abort.signal }).then((status) => setSandbox(status.sandbox), () => {});
    return () => abort.abort();
  }, []);
  if (sandbox?.effective !== "off") return null;
  return html`<div class="no-walls" role="note">${t("walls.none")} <span class="small">${sandbox.reason}</span></div>`;
}
