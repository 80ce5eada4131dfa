// Loads what a page shows: `{data, error, isLoading, reload}`. An answer that came too late for its page is dropped.

import { useCallback, useEffect, useState } from "../lib/preact.js";

/** `load(signal)` is called again when one of `keys` changes, or by `reload`; meanwhile the old data stays. */
export function useLoad(load, keys) {
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState({ isLoading: true });
  useEffect(() => {
    const stop = new AbortController();
    setState((before) => ({ data: turn ? before.data : undefined, isLoading: true }));
    load(stop.signal)
      .then((data) => !stop.signal.aborted && setState({ data, isLoading: false }))
      .catch((error) => !stop.signal.aborted && setState(({ data }) => ({ data, error, isLoading: false })));
    return () => stop.abort();
  }, [...keys, turn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  return { ...state, reload };
}
