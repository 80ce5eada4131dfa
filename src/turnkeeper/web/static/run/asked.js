// The words of a question, for who sees nothing of the conversation that it stands in.
import { html } from "../lib/preact.js";
import { visible } from "../lib/visible.js";
import { Markdown } from "./markdown.js";

export function Asked({ pending }) {
  const isPermission = pending.kind === "permission";
  return html`<div class="asked" data-test="asked">
    ${isPermission ? html`<p class="pre">${visible(pending.prompt)}</p>` : html`<${Markdown} text=${pending.prompt} />`}</div>`;
}
