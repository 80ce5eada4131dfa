// A place for files: chosen with the file dialog, or dropped here. It keeps them; others send them.

import { announce } from "../lib/announce.js";
import { Icon } from "../lib/icons.js";
import { IconButton } from "../lib/parts.js";
import { html, useEffect, useState } from "../lib/preact.js";
import { bytes, t } from "../lib/words.js";
import { control, idOf, FieldSet } from "./frame.js";

/** A file that misses its place would be opened by the browser, instead of the page and all that was typed. */
function useSafeDrops() {
  useEffect(() => {
    const refuse = (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault();
    for (const type of ["dragover", "drop"]) addEventListener(type, refuse);
    return () => ["dragover", "drop"].forEach((type) => removeEventListener(type, refuse));
  }, []);
}

/** `onFiles` gets what was chosen or dropped; folders cannot be read as files and are named to `onFolder`. */
export function DropZone({ attributes, many, accept, label, onFiles, onFolder }) {
  const [isOver, setOver] = useState(false);
  useSafeDrops();
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    if (attributes.disabled) return;
    const { files, folders } = dropped(event.dataTransfer);
    if (folders.length) onFolder?.(folders[0]);
    if (files.length) onFiles(files);
  };
  const choose = (event) => {
    onFiles([...event.currentTarget.files]);
    event.currentTarget.value = ""; // the same file may be chosen again after it was changed
  };
  const over = (isHere) => (event) => {
    event.preventDefault();
    setOver(isHere && !attributes.disabled);
  };
  return html`<label class=${isOver ? "drop over" : "drop"} onDragOver=${over(true)} onDragEnter=${over(true)}
    onDragLeave=${over(false)} onDrop=${drop}>
    <input type="file" class="visually-hidden" multiple=${many} accept=${accept} ...${attributes} onChange=${choose} />
    <${Icon} name="file" /><span>${label}</span>
  </label>`;
}

function dropped(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const isFolder = (item) => item.webkitGetAsEntry?.()?.isDirectory;
  const folders = items.filter(isFolder).map((item) => item.webkitGetAsEntry().name);
  const files = items.filter((item) => !isFolder(item)).map((item) => item.getAsFile());
  return { folders, files: files.filter(Boolean) };
}

/** An input of the skill that comes by upload. */
export function FileField({ node, draft, at, form, onChange }) {
  const [note, setNote] = useState("");
  const free = { ...form, locked: form.filesLocked };
  const take = (files) => {
    const kept = node.many ? [...draft, ...files] : [files.at(-1)];
    setNote(!node.many && files.length > 1 ? t("form.file.onlyOne", { name: kept[0].name }) : "");
    onChange(kept);
    announce(t("form.file.chosen", { name: kept.at(-1).name }));
  };
  const remove = (index) => {
    onChange(draft.filter((_, each) => each !== index));
    document.getElementById(attributes.id).focus(); // the button goes with its file
  };
  const label = t(draft.length && !node.many ? "form.file.other" : node.many ? "form.file.many" : "form.file.one");
  const attributes = { ...control(node, at, free), id: `${idOf(at)}-file`, "aria-label": `${node.title}: ${label}` };
  const earlier = form.earlier?.[node.key];
  return html`<${FieldSet} node=${node} at=${at} form=${form}>
    ${draft.length > 0 && html`<${FileList} files=${draft} locked=${free.locked} remove=${remove} />`}
    <${DropZone} attributes=${attributes} many=${node.many} accept=${node.accept} label=${label} onFiles=${take}
      onFolder=${(name) => setNote(t("form.file.folder", { name }))} />
    ${note && html`<p class="muted" role="status">${note}</p>`}
    ${earlier && !draft.length && html`<p class="muted">${t("form.file.earlier", { names: namesIn(earlier) })}</p>`}
  <//>`;
}

/** The names without the folder that the service keeps them in. */
function namesIn(paths) {
  const names = [paths].flat().map((path) => path.split("/").at(-1));
  return names.join(", ");
}

export function FileList({ files, locked, remove }) {
  return html`<ul class="files">${files.map(
    (file, index) => html`<li key=${`${index}${file.name}`} class="row"><${Icon} name="file" />
      <span class="grow name">${file.name}</span><span class="muted size">${bytes(file.size)}</span>
      <${IconButton} icon="close" label=${t("form.remove", { name: file.name })} disabled=${locked}
        onClick=${() => remove(index)} /></li>`,
  )}</ul>`;
}
