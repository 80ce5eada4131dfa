// Brings a run its files: how far that is, a way to stop it, and a warning before it is cut off.

import { Button } from "../lib/parts.js";
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { bytes, t } from "../lib/words.js";
import { uploadFiles } from "./send.js";

/** The browser asks before a reload or a closed tab cuts the upload off. */
function useWarning(isNeeded) {
  useEffect(() => {
    if (!isNeeded) return undefined;
    const warn = (event) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isNeeded]);
}

/** `upload(runId, parts)` ends when the files are there, and throws if they are not. */
export function useUpload() {
  const [state, setState] = useState({ isUploading: false });
  const stop = useRef();
  useWarning(state.isUploading);
  async function upload(runId, parts) {
    stop.current = new AbortController();
    const total = parts.reduce((size, { file }) => size + file.size, 0);
    setState({ isUploading: true, sent: 0, total });
    const onProgress = (sent, all) => setState({ isUploading: true, sent, total: all });
    try {
      await uploadFiles(runId, parts, onProgress, stop.current.signal);
    } finally {
      setState((now) => ({ ...now, isUploading: false }));
    }
  }
  return { ...state, upload, abort: () => stop.current?.abort() };
}

/** The button that was pressed is gone: the focus goes to what came in its place. */
export function useArrival() {
  const box = useRef();
  useEffect(() => box.current.focus(), []);
  return box;
}

export function Uploading({ sent, total, abort }) {
  const percent = total ? Math.floor((100 * sent) / total) : 0;
  const text =
    total && sent >= total
      ? t("new.upload.storing")
      : t("new.upload.progress", { sent: bytes(sent), total: bytes(total), percent });
  return html`<div class="card stack" role="group" aria-label=${t("new.upload.title")} tabindex="-1" ref=${useArrival()}>
    <label for="upload-progress"><strong>${t("new.upload.title")}</strong></label>
    <progress id="upload-progress" max="100" value=${percent}>${percent} %</progress>
    <div class="row wrap"><span class="grow muted">${text}</span><${Button} onClick=${abort}>${t("new.upload.stop")}<//></div>
  </div>`;
}
