// Looks after the runs that wait for a person, on every page: for the badge, the announcement and the notification.
import { announce } from "../lib/announce.js";
import { api } from "../lib/api.js";
import { startPoll } from "../lib/poll.js";
import { currentRoute } from "../lib/router.js";
import { createStore } from "../lib/store.js";
import { t } from "../lib/words.js";
import { notify } from "./notify.js";

const MOST = 100;
const MOST_TOLD = 2;

/** How many runs wait, as text ("3", "100+"); empty for none. */
export const waiting = createStore("");

const nameOf = (run) => `${run.run_id}.${run.pending_interaction_id}`;

/** Tells of questions that were not there at the last look; at the first look all of them are old news. */
export function watcher(tell) {
  let known = null;
  return (runs) => {
    const names = new Set(runs.map(nameOf));
    const news = known ? runs.filter((run) => !known.has(nameOf(run))) : [];
    known = names;
    if (news.length) tell(news);
  };
}

const wordsOf = (run) => t("announce.asks", { skill: run.skill_id, prompt: run.pending?.prompt ?? "" });

function tell(runs) {
  runs.forEach(notify);
  const others = runs.filter((run) => currentRoute().id !== run.run_id); // its page tells that itself
  if (others.length > MOST_TOLD) announce(t("announce.several", { count: others.length }));
  else others.map(wordsOf).forEach(announce);
}

export function startWatch() {
  const look = watcher(tell);
  const poll = startPoll(async (signal) => {
    const page = await api.get("/v1/jobs", { status: "waiting_user", limit: MOST }, { signal });
    const runs = page.jobs.filter((run) => !run.ending);
    look(runs);
    waiting.set(page.next_cursor ? `${MOST}+` : runs.length ? String(runs.length) : "");
  });
  return () => {
    poll.stop();
    waiting.set(""); // whoever has signed out is told nothing any more
  };
}
