// Parts that every page is made of: buttons, notices, folds, code, dialogs.
import { announce } from "./announce.js";
import { copyText } from "./clipboard.js";
import { Icon } from "./icons.js";
import { colored } from "./json.js";
import { h, html, useEffect, useMemo, useRef, useState } from "./preact.js";
import { bytes, hasWord, t } from "./words.js";

export function Button({ kind, busy = false, disabled = false, class: more = "", children, type = "button", ...rest }) {
  const look = ["button", kind, more].filter(Boolean).join(" ");
  return html`<button type=${type} class=${look} aria-busy=${busy ? "true" : undefined}
    disabled=${disabled || busy} ...${rest}>
    ${busy && html`<span class="spinner" aria-hidden="true"></span>`}${children}</button>`;
}

/** A button that shows only a drawing; `label` is its name. */
export function IconButton({ icon, label, class: more = "", ...rest }) {
  return html`<button type="button" class=${`icon-button ${more}`} aria-label=${label} title=${label} ...${rest}>
    <${Icon} name=${icon} /></button>`;
}

const NOTICE_ICON = { error: "error", warning: "warn", info: "info" };

export function Notice({ kind = "info", title, children }) {
  return html`<div class=${`notice ${kind}`} role=${kind === "error" ? "alert" : "note"}>
    <${Icon} name=${NOTICE_ICON[kind]} />
    <div class="grow stack small-gap">${title && html`<strong>${title}</strong>`}<div>${children}</div></div>
  </div>`;
}

/** What went wrong in a call, with every single error, and a way to try again. */
export function Problem({ error, retry }) {
  if (!error) return null;
  const code = error.code ?? "UNEXPECTED";
  const known = `problem.${code}`;
  return html`<${Notice} kind="error" title=${hasWord(known) ? t(known) : t("problem.title")}>
    ${code !== "UNREACHABLE" && html`<p>${error.message} <code class="muted">${code}</code></p>`}
    ${error.errors?.length > 0 &&
    html`<ul>${error.errors.map((each) => html`<li key=${each} class="mono">${each}</li>`)}</ul>`}
    ${error.facts?.fix && html`<${Code} text=${error.facts.fix} copy />`}
    ${retry && html`<p><${Button} onClick=${retry}>${t("retry")}<//></p>`}
  <//>`;
}

/** `level` 1 where it is the whole page. */
export function Empty({ title, level = 2, children }) {
  return html`<div class="empty">${h(`h${level}`, {}, title)}<div class="stack">${children}</div></div>`;
}

export function Loading({ label }) {
  return html`<p class="loading" role="status">
    <span class="spinner" aria-hidden="true"></span>${label ?? t("loading")}</p>`;
}

/** The state of a run in a word; its colour only repeats it. */
export function StatusBadge({ status }) {
  const key = `status.${status}`;
  return html`<span class=${`badge status-${status}`} data-status=${status}>${hasWord(key) ? t(key) : status}</span>`;
}

/** `open` is how it starts; the reader decides from then on. `children` may be a function that is called when open. */
export function Fold({ summary, open = false, class: more = "", children }) {
  const [isOpen, setOpen] = useState(open);
  return html`<details class=${`fold ${more}`} open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${summary}</summary>
    <div class="fold-body">${typeof children === "function" ? isOpen && children() : children}</div>
  </details>`;
}

export function CopyButton({ text, label }) {
  const [done, setDone] = useState(false);
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    const worked = await copyText(typeof text === "function" ? text() : text);
    announce(t(worked ? "copied" : "copy.failed"));
    setDone(worked);
    timer.current = setTimeout(() => setDone(false), 1500);
  };
  return html`<${IconButton} icon=${done ? "check" : "copy"} label=${done ? t("copied") : (label ?? t("copy"))}
    class="copy" onClick=${copy} />`;
}

/** A browser takes seconds for megabytes: what can be copied whole is shown up to here. */
const MOST_SHOWN = 200_000;

/** Preformatted text; focusable, so that the keyboard can scroll it. `look` makes nodes of the text. */
export function Code({ text, copy = false, label, look = (shown) => shown }) {
  const isCut = copy && text.length > MOST_SHOWN;
  const shown = useMemo(() => look(isCut ? text.slice(0, MOST_SHOWN) : text), [text]);
  return html`<div class="code-box"><pre tabindex="0" role=${label && "group"} aria-label=${label}><code>${shown}</code></pre>
    ${copy && html`<${CopyButton} text=${text} />`}
    ${isCut && html`<p class="muted small">${t("code.cut", { size: bytes(text.length) })}</p>`}</div>`;
}

export function Json({ value, label }) {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? "null", [value]);
  return html`<${Code} text=${text} copy label=${label} look=${colored} />`;
}

/** Modal: the browser keeps the focus inside and closes it on Escape. */
export function Dialog({ title, onClose, wide = false, children }) {
  const element = useRef();
  useEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    return () => dialog.close(); // gives the focus back; outside of an open dialog nothing can take it
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  const outside = (event) => event.target === element.current && onClose();
  return html`<dialog ref=${element} class=${wide ? "dialog wide" : "dialog"} aria-label=${title}
    onCancel=${cancel} onMouseDown=${outside}>
    <div class="dialog-inside"><div class="row dialog-head"><h2 class="grow">${title}</h2>
      <${IconButton} icon="close" label=${t("close")} onClick=${onClose} /></div>
    <div class="dialog-body stack">${children}</div></div>
  </dialog>`;
}
