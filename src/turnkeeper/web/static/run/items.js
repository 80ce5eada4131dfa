// One item of the conversation for each kind: words, tools, thoughts, questions, answers, notes.
import { Icon } from "../lib/icons.js";
import { Code, Fold, Json } from "../lib/parts.js";
import { html, memo } from "../lib/preact.js";
import { visible } from "../lib/visible.js";
import { clockTime, duration, hasWord, moment, t } from "../lib/words.js";
import { withoutAskBlocks } from "./fold.js";
import { handedIn } from "./handedin.js";
import { Markdown } from "./markdown.js";
import { answeredBy } from "./who.js";

const RAW_SHOWN = 20_000;
const STREAMED_MOST = 8_000;
const STREAMED_SHOWN = 60_000;
const HINT = 160;

const Time = ({ ts }) => html`<time datetime=${ts} title=${moment(ts)}>${clockTime(ts)}</time>`;

/** The paragraphs that are complete, and what is still being said: only that is read again at every word. */
function atLastParagraph(text) {
  const at = text.lastIndexOf("\n\n");
  const fences = text.slice(0, Math.max(at, 0)).match(/^ {0,3}(```|~~~)/gm) ?? [];
  return at < 0 || fences.length % 2 ? ["", text] : [text.slice(0, at), text.slice(at)];
}

function Words({ text, isFinal }) {
  if (isFinal) return html`<${Markdown} text=${text} />`;
  const [told, telling] = atLastParagraph(text);
  const isLong = telling.length > STREAMED_MOST;
  const rest = isLong ? html`<p class="pre">${telling.slice(-STREAMED_SHOWN)}</p>` : html`<${Markdown} text=${telling} />`;
  return html`<div class="stack small-gap">${told && html`<${Markdown} text=${told} />`}${rest}</div>`;
}

/** A line that opens: a drawing, a name, a hint of what is inside. `children` is called when it is open. */
function Step({ icon, name, hint, isMono, state, class: more = "", children }) {
  const look = isMono ? "mono" : "";
  const summary = html`<${Icon} name=${icon} /><span class=${`step-name ${look}`}>${name}</span>
    <span class=${`step-hint ${look}`}>${hint}</span>${state}`;
  return html`<${Fold} class=${`step ${more}`} summary=${summary}>${children}<//>`;
}

const start = (text) => text.trimStart().split("\n", 1)[0].slice(0, HINT);

function Message({ item }) {
  const result = item.isFinal ? handedIn(item.text) : null;
  const text = result ? result.before : withoutAskBlocks(item.text);
  if (!text && !result) return null;
  return html`<div class="said" data-test="message">
    ${text && html`<${Words} text=${text} isFinal=${item.isFinal} />`}
    ${result &&
    html`<${Step} icon="check" name=${t("item.handedin")}>${() => html`<${Json} value=${result.value} />`}<//>`}
  </div>`;
}

function Reasoning({ item }) {
  return html`<${Step} icon="thought" class="thought" name=${t("item.thought")} hint=${start(item.text)}>
    ${() => html`<${Markdown} text=${item.text} />`}<//>`;
}

function shortInput(input) {
  if (typeof input === "string") return input;
  return String(input?.command ?? input?.path ?? JSON.stringify(input) ?? "");
}

function ToolValue({ title, value, isCut }) {
  if (value === undefined) return null;
  const isText = typeof value === "string";
  return html`<div class="stack small-gap"><p class="muted small">${title}</p>
    ${isText ? html`<${Code} text=${value} copy label=${title} />` : html`<${Json} value=${value} label=${title} />`}
    ${isCut && html`<p class="muted small">${t("item.tool.cut")}</p>`}</div>`;
}

function Tool({ item }) {
  const key = `tool.${item.status}`;
  const state = hasWord(key) ? t(key) : item.status;
  const took = (Date.parse(item.endedAt) - Date.parse(item.ts)) / 1000;
  const name = visible(String(item.name));
  const hint = visible(shortInput(item.input).slice(0, HINT));
  const isBare = item.input === undefined && item.output === undefined;
  const told = html`<span class=${`step-state tool-${item.status}`}>${state}${took >= 1 && ` · ${duration(took)}`}</span>`;
  return html`<${Step} icon="tool" name=${name} hint=${hint !== name && hint} isMono state=${told}>
    ${() => html`<div class="stack">
      <${ToolValue} title=${t("item.tool.input")} value=${item.input} isCut=${item.input_truncated} />
      <${ToolValue} title=${t("item.tool.output")} value=${item.output} isCut=${item.output_truncated} />
      ${isBare && html`<p class="muted small">${t("item.tool.nothing")}</p>`}
    </div>`}<//>`;
}

function Raw({ item }) {
  const text = item.text.slice(-RAW_SHOWN);
  const isCut = text.length < item.text.length;
  return html`<${Step} icon="log" name=${t(`item.${item.stream}`)} hint=${start(item.text)}>
    ${() => html`${isCut && html`<p class="muted small">${t("item.raw.cut")}</p>`}<${Code} text=${text} copy />`}<//>`;
}

/** The open question has its options, and a permission everything, in the answer box. */
function Question({ item, isOpen }) {
  const { question, isTold } = item;
  const isPermission = question.kind === "permission";
  const options = isOpen ? [] : (question.options ?? []).map((option) => option.label);
  if ((isTold && !options.length) || (isOpen && isPermission)) return null;
  return html`<div class=${isTold ? "asked" : "asked whole"} data-test="asked">
    ${!isTold &&
    html`<div class="asked-words"><${Icon} name=${isPermission ? "lock" : "ask"} />
      <div class="grow"><${Markdown} text=${question.prompt} /></div></div>`}
    ${options.length > 0 &&
    html`<ul class="offered" aria-label=${t("item.offered")}>${options.map((label) => html`<li>${label}</li>`)}</ul>`}
  </div>`;
}

function Answer({ item, answer }) {
  const isPerson = item.mode === "user_reply";
  const text = item.label ?? answer?.response ?? item.text;
  const who = answeredBy(item.mode, answer?.resolved_by);
  if (!isPerson) return html`<p class="note"><span>${who}</span> <${Time} ts=${item.ts} /></p>`;
  return html`<div class="mine"><div class="bubble pre" data-test="answer">${text}</div>
    <p class="mine-by">${who} · <${Time} ts=${item.ts} /></p></div>`;
}

const Note = ({ item }) => {
  const key = `note.${item.trigger}`;
  return html`<p class="note">${hasWord(key) ? t(key) : item.trigger} <${Time} ts=${item.ts} /></p>`;
};

const Turn = ({ item }) => html`<p class="note turn">
  <span>${t("item.turn", { n: item.turn })}</span> <${Time} ts=${item.ts} /></p>`;

const Warning = ({ item }) => html`<p class="warn-line"><${Icon} name="warn" />
  <span>${item.message} <code>${item.code}</code></span></p>`;

const KINDS = {
  message: Message,
  reasoning: Reasoning,
  tool: Tool,
  raw: Raw,
  question: Question,
  answer: Answer,
  note: Note,
  turn: Turn,
  warning: Warning,
};

/** `language` is only there to draw it again when the reader chooses another. */
export const Item = memo(function Item({ item, answer, isOpen }) {
  const kind = KINDS[item.kind];
  return html`<li class=${`item item-${item.kind}`} data-key=${item.key}>
    ${kind && html`<${kind} item=${item} answer=${answer} isOpen=${isOpen} />`}</li>`;
});
