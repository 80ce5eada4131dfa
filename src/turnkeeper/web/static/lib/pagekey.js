// The key that goes with the cookie. A browser sends the cookie to every port of this host; what a page keeps is its own.
const KEPT = "turnkeeper.pageKey";
const HEADER = "X-Turnkeeper-Page";

let key = null; // for a browser that keeps nothing

function stored(work) {
  try {
    return work(localStorage);
  } catch {
    return null;
  }
}

export function keepPageKey(given) {
  key = given;
  stored((store) => store.setItem(KEPT, given));
}

export function forgetPageKey() {
  key = null;
  stored((store) => store.removeItem(KEPT));
}

/** What every call carries; another tab may have signed in anew. */
export function pageKeyHeader() {
  const known = stored((store) => store.getItem(KEPT)) ?? key;
  return known ? { [HEADER]: known } : {};
}
