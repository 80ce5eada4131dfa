// What time it is for the service, whose deadlines we count down: its clock may differ from the browser's.
import { useEffect, useState } from "./preact.js";

const TOLERATED_MS = 2000;
let ahead = 0;

/** `Date` of an answer has whole seconds only, so small differences mean nothing. */
export function noteServerTime(header) {
  const told = Date.parse(header ?? "");
  if (Number.isNaN(told)) return;
  const difference = told - Date.now();
  ahead = Math.abs(difference) > TOLERATED_MS ? difference : 0;
}

export const now = () => Date.now() + ahead;

/** Draws the component again every `ms` milliseconds; null stops the clock. */
export function useNow(ms = 1000) {
  const [moment, setMoment] = useState(now());
  useEffect(() => {
    if (ms === null) return undefined;
    const timer = setInterval(() => setMoment(now()), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return moment;
}
