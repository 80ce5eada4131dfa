// An agent's Markdown as Preact nodes. It is read by marked's lexer only: no HTML is made, so none can slip in.
import { lexer } from "../vendor/marked.js";
import { h, html, memo } from "../lib/preact.js";
import { Code, Fold } from "../lib/parts.js";
import { bytes, t } from "../lib/words.js";

/** Longer texts are shown as they are, and what is beyond it when it is wanted: else they would hold up the page. */
const MOST = 60_000;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

function plain(text) {
  return text.replace(/&(?:#(\d{1,6})|#x([\da-f]{1,6})|(\w{2,4}));/gi, (whole, decimal, hex, name) => {
    const code = decimal ? Number(decimal) : hex ? parseInt(hex, 16) : 0;
    if (code) return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    return ENTITIES[name?.toLowerCase()] ?? whole;
  });
}

/** Addresses that a click may open; anything else is only shown. */
export function safeAddress(href) {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

const Away = ({ href, children }) => html`<a href=${href} target="_blank" rel="noopener noreferrer">${children}</a>`;

function link({ href, tokens, text }) {
  const address = safeAddress(href);
  const words = tokens?.length ? inline(tokens) : text;
  if (!address) return html`<span>${words}</span> <code>${href}</code>`;
  return html`<${Away} href=${address}>${words}<//>`;
}

/** Images are never loaded: the address alone would tell somebody that this was read. */
function image({ href, text }) {
  const address = safeAddress(href);
  const words = t("md.image", { alt: text || href });
  return address ? html`<${Away} href=${address}>${words}<//>` : html`<span>${words}</span>`;
}

const INLINE = {
  text: (token) => (token.tokens ? inline(token.tokens) : plain(token.text)),
  escape: (token) => token.text,
  strong: (token) => html`<strong>${inline(token.tokens)}</strong>`,
  em: (token) => html`<em>${inline(token.tokens)}</em>`,
  del: (token) => html`<del>${inline(token.tokens)}</del>`,
  codespan: (token) => html`<code>${token.text}</code>`,
  br: () => html`<br />`,
  html: (token) => token.raw,
  checkbox: () => null,
  link,
  image,
};

const inline = (tokens = []) => tokens.map((token) => (INLINE[token.type] ? INLINE[token.type](token) : token.raw));

function code({ text, lang }) {
  return html`<${Code} text=${text} copy label=${t("md.code", { lang: lang || t("md.text") })} />`;
}

function listItem(item) {
  const state = t(item.checked ? "md.done" : "md.open");
  const box = item.task && html`<input type="checkbox" disabled checked=${Boolean(item.checked)} aria-label=${state} /> `;
  return html`<li class=${item.task ? "task" : undefined}>${box}${blocks(item.tokens)}</li>`;
}

function list({ ordered, start, items }) {
  const inside = items.map(listItem);
  return ordered ? html`<ol start=${start === "" ? undefined : start}>${inside}</ol>` : html`<ul>${inside}</ul>`;
}

function table({ header, rows }) {
  const look = ({ align }) => (align ? `align-${align}` : undefined);
  const cell = (tag) => (each) => h(tag, { class: look(each) }, inline(each.tokens));
  return html`<div class="table-box" tabindex="0"><table>
    <thead><tr>${header.map(cell("th"))}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map(cell("td"))}</tr>`)}</tbody>
  </table></div>`;
}

const BLOCK = {
  space: () => null,
  def: () => null,
  checkbox: () => null,
  hr: () => html`<hr />`,
  // The page has its own first two levels.
  heading: (token) => h(`h${Math.min(6, token.depth + 2)}`, {}, inline(token.tokens)),
  paragraph: (token) => html`<p>${inline(token.tokens)}</p>`,
  text: (token) => (token.tokens ? inline(token.tokens) : plain(token.text)),
  blockquote: (token) => html`<blockquote>${blocks(token.tokens)}</blockquote>`,
  html: (token) => html`<p class="pre">${token.raw.trim()}</p>`,
  code,
  list,
  table,
};

const blocks = (tokens = []) =>
  tokens.map((token) => (BLOCK[token.type] ?? INLINE[token.type])?.(token) ?? (token.type in BLOCK ? null : token.raw));

function read(text) {
  if (text.length > MOST) return null;
  try {
    return blocks(lexer(text, { gfm: true, breaks: true }));
  } catch {
    return null; // nested too deeply: then as it is
  }
}

function AsItIs({ text }) {
  const rest = text.slice(MOST);
  return html`<p class="pre">${text.slice(0, MOST)}</p>
    ${rest && html`<${Fold} summary=${t("md.rest", { size: bytes(rest.length) })}>
      ${() => html`<p class="pre">${rest}</p>`}<//>`}`;
}

export const Markdown = memo(function Markdown({ text }) {
  return html`<div class="md">${read(text) ?? html`<${AsItIs} text=${text} />`}</div>`;
});
