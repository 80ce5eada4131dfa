// Messages of the browser, outside of the page: only after a person asked for them.
import { createStore } from "../lib/store.js";
import { currentRoute, go } from "../lib/router.js";
import { t } from "../lib/words.js";

const state = () => ("Notification" in window ? Notification.permission : "unsupported");

/** "default" (may be asked), "granted", "denied" or "unsupported". */
export const permission = createStore(state());

export async function askForPermission() {
  try {
    await Notification.requestPermission();
  } finally {
    permission.set(state());
  }
}

const isSeen = (run) => !document.hidden && currentRoute().id === run.run_id;

export function notify(run) {
  if (state() !== "granted" || isSeen(run)) return;
  try {
    // The tag makes several open tabs show one message, not several.
    const tag = `${run.run_id}.${run.pending_interaction_id}`;
    const shown = new Notification(t("notify.title", { skill: run.skill_id }), {
      body: (run.pending?.prompt ?? "").slice(0, 200),
      icon: "/static/icon-waiting.svg",
      tag,
    });
    shown.onclick = () => {
      window.focus();
      go(`#/runs/${run.run_id}`);
      shown.close();
    };
  } catch {
    // Some phones have the name but allow it to service workers only.
    permission.set("unsupported");
  }
}
