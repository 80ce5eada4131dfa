// Asks again and again: often while the page is seen, seldom while it is hidden, never twice at the same time.
import { useEffect, useRef } from "./preact.js";

export const PACE = { seen: 3000, hidden: 15000 };

/** Calls `work(signal)` at once, when one of `deps` changes, and then at the pace. Returns a function: now, please. */
export function usePoll(work, deps = [], pace = PACE) {
  const latest = useRef(work);
  latest.current = work;
  const again = useRef(() => {});
  useEffect(() => {
    const poll = startPoll((signal) => latest.current(signal), pace);
    again.current = poll.now;
    return poll.stop;
  }, deps);
  return () => again.current();
}

export function startPoll(work, pace = PACE) {
  const control = new AbortController();
  let timer;
  let isBusy = false;
  let isWanted = false;
  const turn = async () => {
    clearTimeout(timer);
    isWanted = isBusy; // what is under way may be too old for whoever asks now: once more, then
    if (isBusy) return;
    isBusy = true;
    try {
      await work(control.signal);
    } catch (error) {
      if (error.name !== "AbortError" && error.name !== "Problem") console.error(error);
    }
    isBusy = false;
    if (control.signal.aborted) return;
    timer = setTimeout(turn, isWanted ? 0 : document.hidden ? pace.hidden : pace.seen);
  };
  const seen = () => !document.hidden && turn();
  document.addEventListener("visibilitychange", seen);
  turn();
  return {
    now: turn,
    stop() {
      control.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    },
  };
}
