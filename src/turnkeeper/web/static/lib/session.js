// Signing in and out. A code comes in the address, behind `#`, where no server and no log ever sees it.
import { api, signedIn } from "./api.js";
import { learnWhoIAm } from "./me.js";
import { forgetPageKey, keepPageKey } from "./pagekey.js";
import { go, replace } from "./router.js";

const WANTED = "turnkeeper.wanted";

function kept(work) {
  try {
    return work(sessionStorage);
  } catch {
    return null;
  }
}

/** Where the person was when the session ended: a code that is opened in this tab leads back there. */
export const rememberPlace = () => kept((store) => store.setItem(WANTED, location.hash));

function wantedPlace() {
  const place = kept((store) => store.getItem(WANTED)) ?? "";
  kept((store) => store.removeItem(WANTED));
  return place.startsWith("#/") ? place : "#/";
}

/** What an address says behind its `#`: `code`, and `to` where it leads. */
const fieldsIn = (address) => new URLSearchParams(address.split("#")[1] ?? "");

/** The code of the address, which is taken out of it at once: nobody shall copy or bookmark it. */
export function takeCode() {
  if (location.hash.startsWith("#/")) return null;
  const fields = fieldsIn(location.hash);
  const code = fields.get("code");
  if (code === null) return null;
  const to = fields.get("to") ?? "";
  replace(to.startsWith("/") ? to : wantedPlace());
  return code;
}

export async function signIn(proof) {
  const session = await api.post("/v1/session", proof, { open: true });
  keepPageKey(session.page_key);
  await learnWhoIAm({ open: true }).catch(() => {});
  signedIn.set(true);
}

/** Asks once before anything is drawn: without a session every part of the page would ask, and be refused. */
export async function lookForSession() {
  await learnWhoIAm().catch(() => {});
}

/** A used code is no harm if this browser is signed in already. */
export async function signInByCode(code) {
  try {
    await signIn({ code });
  } catch (problem) {
    const isKnown = await learnWhoIAm({ open: true }).then(() => true, () => false);
    if (isKnown) return;
    signedIn.set(false);
    throw problem;
  }
}

export async function signOut() {
  await api.del("/v1/session", { open: true });
  forgetPageKey();
  go("#/");
  signedIn.set(false);
}

/** What a person pastes is a code, a token, a key, or the whole address with the code in it. */
export function asProof(text) {
  const pasted = text.trim();
  const code = fieldsIn(pasted).get("code");
  return code ? [{ code }] : [{ code: pasted }, { token: pasted }];
}
