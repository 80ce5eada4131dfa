// The request that the form stands for, as JSON and as commands, for those who want to send it by other means.

import { Code, Fold, Json } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { curlOf, partsOf } from "./request.js";
import { requestOf } from "./state.js";

export function Preview({ state }) {
  return html`<${Fold} summary=${t("new.preview")}>${() => {
    const body = requestOf(state);
    const curl = curlOf(body, partsOf(state.input), location.origin);
    return html`<div class="stack">
      <h3>JSON</h3><${Json} value=${body} label=${t("new.preview.json")} />
      <h3>curl</h3><p class="muted small">${t("new.preview.token")}</p><${Code} text=${curl} copy label=${t("new.preview.curl")} />
    </div>`;
  }}<//>`;
}
