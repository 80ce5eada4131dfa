// From the form to the run: create, upload, go there. Tells the page where it is, and what to show if it cannot go on.

import { announce } from "../lib/announce.js";
import { api } from "../lib/api.js";
import { useEffect, useRef, useState } from "../lib/preact.js";
import { go } from "../lib/router.js";
import { t } from "../lib/words.js";
import { partsOf } from "./request.js";
import { creator } from "./send.js";
import { requestOf } from "./state.js";
import { useUpload } from "./uploading.js";

const EDITING = { phase: "editing" };

/** `phase` is editing, creating, uploading or stuck: in the last the run is there, and its files are not. */
export function useSending({ onRefused, onDone }) {
  const [sending, setSending] = useState(EDITING);
  const create = useRef(null);
  create.current ??= creator();
  const isBusy = useRef(false);
  const isHere = useRef(true);
  useEffect(() => () => (isHere.current = false), []);
  const { upload, sent, total, abort } = useUpload();

  const alone =
    (work) =>
    async (...given) => {
      if (isBusy.current) return;
      isBusy.current = true;
      await work(...given);
      isBusy.current = false;
    };

  async function bring(runId, parts) {
    setSending({ phase: "uploading", runId });
    try {
      await upload(runId, parts);
      arrive(runId);
    } catch (error) {
      setSending({ phase: "stuck", runId, error: error.name === "AbortError" ? undefined : error });
      announce(t("new.stuck.title"));
    }
  }

  /** Whoever has gone elsewhere meanwhile stays there. */
  function arrive(runId) {
    onDone(runId);
    announce(t("new.started"));
    if (isHere.current) go(`/runs/${encodeURIComponent(runId)}`);
  }

  async function submit(state) {
    setSending({ phase: "creating" });
    const parts = partsOf(state.input);
    try {
      const { run_id: runId } = await create.current(requestOf(state));
      if (parts.length) await bring(runId, parts);
      else arrive(runId);
    } catch (error) {
      setSending(EDITING);
      onRefused(error);
    }
  }

  /** Gives the run up that has no files, so that the form can be changed and sent as another one, even if it says the same. */
  async function giveUp(runId) {
    try {
      await api.post(`/v1/jobs/${encodeURIComponent(runId)}/cancel`);
      create.current = creator();
      setSending(EDITING);
    } catch (error) {
      setSending({ phase: "stuck", runId, error });
    }
  }

  return {
    ...sending,
    sent,
    total,
    submit: alone(submit),
    retry: alone((state) => bring(sending.runId, partsOf(state.input))),
    giveUp: alone(() => giveUp(sending.runId)),
    abort,
  };
}
