// One run as it goes on: its newest events first, older ones on demand, new ones from the stream.
import { api, reachable } from "../lib/api.js";
import { may } from "../lib/me.js";
import { createStore } from "../lib/store.js";
import { append, empty, join } from "./fold.js";
import { follow } from "./stream.js";

const NEWEST = 400;
const OLDER = 1000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
const REFRESH_MS = 60;
const LONGEST_REFRESH_MS = 500;
const LOOK_MS = 3000;
const TELLS_OF_RUN = /^(conversation|interaction|user|usage|diagnostic)\./;

export const isOver = (run) => ["succeeded", "failed", "canceled"].includes(run?.status);

/** `link`: "connecting", "live", "lost", "paused" (the page is hidden) or "over". `version` counts changes of `log`. */
const START = {
  run: null,
  pending: null,
  answers: [],
  version: 0,
  link: "connecting",
  isLoadingOlder: false,
  error: null,
};

/** Losses that are told by the line itself; anything else is a fault of ours. */
const LOSSES = new Set(["Problem", "AbortError", "TypeError"]);

export class LiveRun {
  constructor(runId) {
    this.runId = runId;
    this.view = createStore({ ...START, log: empty() });
    this._control = new AbortController();
    this._arrived = [];
    this._failures = 0;
    this._answered = null;
    this._wake = () => {};
  }

  start() {
    this._seen = () => (document.hidden ? this._stream?.abort() : this._wake());
    document.addEventListener("visibilitychange", this._seen);
    addEventListener("online", this._seen);
    // Whoever else asked may have heard first that the service is back.
    this._forget = reachable.subscribe((isBack) => isBack && this._wake());
    this._go();
  }

  stop() {
    this._control.abort();
    this._stream?.abort();
    this._wake();
    cancelAnimationFrame(this._frame);
    clearTimeout(this._refreshTimer);
    document.removeEventListener("visibilitychange", this._seen);
    removeEventListener("online", this._seen);
    this._forget();
  }

  get _isStopped() {
    return this._control.signal.aborted;
  }

  _set(part) {
    if (!this._isStopped) this.view.set({ ...this.view.get(), ...part });
  }

  /** Loads, follows, and begins again after every loss, until the run is over. */
  async _go() {
    while (!this._isStopped) {
      if (document.hidden && this.view.get().run) {
        this._set({ link: "paused" });
        await this._pause(null);
        continue;
      }
      try {
        if (await this._once()) return;
      } catch (problem) {
        if (this._hasGivenUp(problem)) return;
        if (document.hidden) continue;
        this._set({ link: "lost" });
        await this._pause(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this._failures));
        this._failures += 1;
      }
    }
  }

  /** A run that does not exist, or a session that has ended, does not come back by trying. */
  _hasGivenUp(problem) {
    if (problem.name === "Problem" && problem.status >= 400 && problem.status < 500) {
      this._set({ error: problem, link: "lost" });
      return true;
    }
    if (!LOSSES.has(problem.name)) console.error(problem);
    return this._isStopped;
  }

  async _once() {
    if (!this.view.get().run) await this._load();
    const { run, log } = this.view.get();
    if (isOver(run) && (log.last >= run.last_seq || !may("read"))) {
      this._set({ link: "over" });
      return true;
    }
    if (!may("read")) return this._lookAgain();
    this._stream = new AbortController();
    const ended = await follow(this.runId, log.last, (told) => this._take(told), this._stream.signal);
    this._flush();
    if (!ended) throw new TypeError("the stream was cut off");
    await this.refresh();
    this._set({ link: "over" });
    return true;
  }

  /** Who may answer and not read is told of no event: the run and its question are looked at now and then. */
  async _lookAgain() {
    this._failures = 0;
    this._set({ link: "live" });
    await this._pause(LOOK_MS);
    if (!this._isStopped) await this.refresh();
    return false;
  }

  async _load() {
    const run = await this._get("");
    const log = append(empty(), await this._events(Math.max(1, run.last_seq - NEWEST + 1), run.last_seq));
    const facts = await this._facts(run);
    this._set({ run, log, ...facts, version: this.view.get().version + 1 });
  }

  _get(path, params) {
    return api.get(`/v1/jobs/${this.runId}${path}`, params, { signal: this._control.signal });
  }

  async _events(from, to) {
    if (!may("read")) return [];
    const events = [];
    for (let next = from; next !== null && next <= to; ) {
      const page = await this._get("/events/history", { from_seq: next, to_seq: to, limit: OLDER });
      events.push(...page.events);
      next = page.next_from_seq;
    }
    return events;
  }

  async _facts(run) {
    const isWaiting = run.status === "waiting_user";
    const [asked, history] = await Promise.all([
      isWaiting ? this._get("/interaction/pending") : { pending: null },
      may("read") ? this._get("/interaction/history") : { interactions: [] },
    ]);
    const isOpen = asked.pending?.interaction_id !== this._answered;
    return { pending: isOpen ? asked.pending : null, answers: history.interactions };
  }

  /** Our answer was taken: nobody shall go on writing where it was. What comes next is told by the service. */
  answered(id) {
    this._answered = id;
    if (this.view.get().pending?.interaction_id === id) this._set({ pending: null });
  }

  /** The run, its question and its answers as they are now. */
  async refresh() {
    const run = await this._get("");
    const facts = await this._facts(run);
    // Answers may overtake each other; an older picture never replaces a newer one.
    if (run.last_seq >= (this.view.get().run?.last_seq ?? 0)) this._set({ run, ...facts });
    return run;
  }

  /** After the last of a burst of events; one that does not end is not waited for. */
  _refreshSoon() {
    const now = performance.now();
    this._refreshBy ??= now + LONGEST_REFRESH_MS;
    clearTimeout(this._refreshTimer);
    this._refreshTimer = setTimeout(
      () => {
        this._refreshBy = null;
        this.refresh().catch(() => {});
      },
      Math.min(REFRESH_MS, this._refreshBy - now),
    );
  }

  _take(told) {
    for (const [event, data] of told) {
      if (event === "chat_event") this._arrived.push(data);
      if (event === "snapshot") this._connected(data);
    }
    if (this._arrived.length && !this._frame) this._frame = requestAnimationFrame(() => this._flush());
  }

  _connected(run) {
    this._failures = 0;
    const known = this.view.get().run;
    this._set({ link: "live" });
    if (run.updated_at !== known.updated_at || run.status !== known.status) this._refreshSoon();
  }

  /** However many events have come since the last picture: one change. */
  _flush() {
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    const events = this._arrived;
    if (!events.length) return;
    this._arrived = [];
    const { log, version } = this.view.get();
    this._set({ log: append(log, events), version: version + 1 });
    if (events.some((event) => TELLS_OF_RUN.test(event.type))) this._refreshSoon();
  }

  async loadOlder() {
    const { log, isLoadingOlder } = this.view.get();
    if (isLoadingOlder || log.first <= 1) return;
    this._set({ isLoadingOlder: true });
    try {
      const events = await this._events(Math.max(1, log.first - OLDER), log.first - 1);
      const older = append(empty(), events);
      this._set({ log: join(older, this.view.get().log), version: this.view.get().version + 1 });
    } catch {
      // the next scroll tries again
    }
    this._set({ isLoadingOlder: false });
  }

  /** Waits so long (null: for ever), or until the page is seen again or the network is back. */
  _pause(ms) {
    return new Promise((resolve) => {
      const timer = ms === null ? null : setTimeout(resolve, ms);
      this._wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
