// Who has no session yet is told how to get one, and can paste a code, a token or a key.
import { Button, Code, Notice, Problem } from "../lib/parts.js";
import { html, useEffect, useState } from "../lib/preact.js";
import { asProof, signIn } from "../lib/session.js";
import { setTitle } from "../lib/title.js";
import { language, t } from "../lib/words.js";

/** A pasted word is tried as a code first, then as a token; the last refusal is the one that is told. */
async function tryAll(proofs) {
  let refusal = null;
  for (const proof of proofs) {
    try {
      return await signIn(proof);
    } catch (problem) {
      refusal = problem;
      if (problem.status !== 401) break;
    }
  }
  throw refusal;
}

function Refused({ problem }) {
  if (!problem) return null;
  if (problem.status !== 401) return html`<${Problem} error=${problem} />`;
  return html`<${Notice} kind="error" title=${t("signin.refused")}>${t("signin.refused.why")}<//>`;
}

export function SignIn({ problem = null }) {
  const [text, setText] = useState("");
  const [refusal, setRefusal] = useState(problem);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => setTitle(t("signin.title")), [language()]);
  useEffect(() => setRefusal(problem), [problem]);
  const send = async (event) => {
    event.preventDefault();
    if (!text.trim()) return;
    setBusy(true);
    setRefusal(null);
    await tryAll(asProof(text)).catch(setRefusal);
    setBusy(false);
  };
  return html`<div class="signin"><div class="card stack">
    <div class="signin-head"><img src="/static/icon.svg" alt="" /><h1>${t("signin.title")}</h1></div>
    <p>${t("signin.how")}</p>
    <${Code} text="turnkeeper open" copy />
    <p class="muted small">${t("signin.printed")}</p>
    <form class="stack" onSubmit=${send}>
      <div class="field"><label for="proof">${t("signin.field")}</label>
        <input id="proof" type="password" autocomplete="off" spellcheck=${false} value=${text}
          onInput=${(event) => setText(event.currentTarget.value)} /></div>
      <${Refused} problem=${refusal} />
      <${Button} kind="primary" type="submit" busy=${isBusy}>${t("signin.send")}<//>
    </form>
  </div></div>`;
}
