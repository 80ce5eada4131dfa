// A link for somebody else, who answers the open question without an account.
import { announce } from "../lib/announce.js";
import { api } from "../lib/api.js";
import { copyText } from "../lib/clipboard.js";
import { Icon } from "../lib/icons.js";
import { Button, Code, Problem } from "../lib/parts.js";
import { html, useState } from "../lib/preact.js";
import { moment, t } from "../lib/words.js";

function Made({ link, isCopied }) {
  return html`<p class="muted small" data-test="shared">${t("share.what", { at: moment(link.expires_at) })}</p>
    ${!isCopied && html`<p class="small">${t("share.by.hand")}</p><${Code} text=${link.url} copy />`}`;
}

export function Share({ runId, interactionId }) {
  const [busy, setBusy] = useState(false);
  const [made, setMade] = useState(null);
  const [error, setError] = useState(null);
  const make = async () => {
    setBusy(true);
    setError(null);
    try {
      const link = await api.post(`/v1/jobs/${runId}/interaction/links`, { interaction_id: interactionId });
      const isCopied = await copyText(link.url);
      announce(t(isCopied ? "share.copied" : "copy.failed"));
      setMade({ link, isCopied });
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  return html`<div class="share stack small-gap">
    <div><${Button} class="quiet" busy=${busy} onClick=${make}>
      <${Icon} name=${made?.isCopied ? "check" : "copy"} />${t(made?.isCopied ? "share.copied" : "share.copy")}<//></div>
    ${made && html`<${Made} ...${made} />`}
    <${Problem} error=${error} />
  </div>`;
}
