// The list of keys, opened by `?`.
import { Dialog } from "../lib/parts.js";
import { html } from "../lib/preact.js";
import { t } from "../lib/words.js";

const KEYS = [
  [["/"], "keys.search"],
  [["j", "k"], "keys.move"],
  [["Enter"], "keys.open"],
  [["1", "9"], "keys.option"],
  [["Ctrl", "Enter"], "keys.send"],
  [["?"], "keys.help"],
  [["Esc"], "keys.close"],
];
const JOINT = { "1,9": "–", "Ctrl,Enter": " + " };

export function KeyHelp({ onClose }) {
  return html`<${Dialog} title=${t("menu.keys")} onClose=${onClose}><dl class="keys">
    ${KEYS.map(([keys, text]) => {
      const joint = JOINT[keys.join()] ?? " ";
      return html`<dt>${keys.map((key, at) => html`${at > 0 && joint}<kbd>${key}</kbd>`)}</dt><dd>${t(text)}</dd>`;
    })}
  </dl><//>`;
}
