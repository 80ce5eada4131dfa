// The secret of an answer link. It comes behind `#`, where no server and no log ever sees it, and is taken out of the
// address at once; this tab keeps it for a reload, and nobody else.
const KEPT = "turnkeeper.link";
const PLACE = "#answer";

let secret = null; // for a browser that keeps nothing

function stored(work) {
  try {
    return work(sessionStorage);
  } catch {
    return null;
  }
}

/** Whether the address is that of a link, with its secret or without it. */
export const isLinkAddress = () => location.hash === PLACE || location.hash.startsWith(`${PLACE}=`);

/** The secret; "" if this tab was never given it, null if the address is none of a link. */
export function takeLink() {
  if (!isLinkAddress()) return null;
  const given = new URLSearchParams(location.hash.slice(1)).get("answer");
  if (given) {
    secret = given;
    stored((store) => store.setItem(KEPT, given));
    history.replaceState(null, "", location.pathname + location.search + PLACE);
  }
  return secret ?? stored((store) => store.getItem(KEPT)) ?? "";
}

/** What the two calls of a link carry; no cookie goes along. */
export const asGuest = (link) => ({
  headers: { Authorization: `Bearer ${link}` },
  credentials: "omit",
  open: true,
});
