// What makes an engine ready: commands to copy, and advice that is no command.

import { Code } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";

const BETWEEN = ", or: ";
const ADVICE = /^set |^\S+ is |\bbefore the service\b/;

/** The service names several ways in one text, each a command or a sentence. */
export const waysOf = (fix) => fix.split(BETWEEN).map((text) => ({ text, isCommand: !ADVICE.test(text) }));

export function Fix({ text }) {
  if (!text) return null;
  return html`<div class="stack small-gap fix">${waysOf(text).map((way) =>
    way.isCommand
      ? html`<${Code} key=${way.text} text=${way.text} copy label=${t("engine.fix")} />`
      : html`<p key=${way.text} class="muted small">${way.text}</p>`,
  )}</div>`;
}
