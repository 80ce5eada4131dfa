// What this session is good for. What it may not do is not offered; it is the service that decides.
import { api } from "./api.js";
import { createStore, useStore } from "./store.js";

export const me = createStore(null);

export async function learnWhoIAm(options) {
  me.set(await api.get("/v1/me", undefined, options));
}

/** Until it is known, everything is offered. */
export const may = (...scopes) => {
  const mine = me.get()?.scopes ?? ["admin"];
  return mine.includes("admin") || scopes.every((scope) => mine.includes(scope));
};

export const useMay = (...scopes) => (useStore(me), may(...scopes));

/** The form of a new run shows what skills and engines there are. */
export const TO_START = ["run", "read"];
