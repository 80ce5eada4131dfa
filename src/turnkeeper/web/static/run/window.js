// Which items are in the page: a window over all of them, since twenty thousand would make the browser slow.

export const STEP = 40;
export const MOST = 160;

/** The window at the end of the items. Numbers are those of the log: `base` is the first, `end` one behind the last. */
export const atEnd = (base, end) => ({ start: Math.max(base, end - MOST / 2), end });

/** A window is never outside of what is there. It shows the end if it is to follow it, else takes in what is new below
 *  as long as there is room: nothing that the reader sees moves by that. */
export function fit(range, base, end, follows) {
  if (follows || range === null) return atEnd(base, end);
  const start = Math.max(base, Math.min(range.start, end - 1));
  return { start, end: Math.min(end, start + MOST) };
}

export const up = (range, base) => {
  const start = Math.max(base, range.start - STEP);
  return { start, end: Math.min(range.end, start + MOST) };
};

export const down = (range, end) => {
  const last = Math.min(end, range.end + STEP);
  return { start: Math.max(range.start, last - MOST), end: last };
};
