// The form while a person fills it in: its value, and the errors at its fields, which come late and leave early.

import { useEffect, useRef, useState } from "../lib/preact.js";
import { t } from "../lib/words.js";
import { load } from "./memory.js";
import { begin, formFaults, formPlaces, rebased, refreshed, refusal, requestOf } from "./state.js";
import { tidy } from "./values.js";

/** Forms that were not sent yet, by what they are for: a sign-in or a look elsewhere must not cost them. */
const unsent = new Map();
/** An error that appears between press and release moves the button away from under the pointer. */
const CLICK_MS = 200;

const tidied = (group) => ({ ...group, draft: tidy(group.node, group.draft) });
const asError = (fault) => [fault.at, { text: t(fault.key, fault.values) }];

export function useEditing(given) {
  const { skill, engines } = given;
  const name = JSON.stringify([skill.id, given.from, given.schemas]);
  const first = () =>
    unsent.has(name)
      ? refreshed(unsent.get(name), skill, engines)
      : begin({ ...given, lastEngine: given.engine ?? load("engine"), lastMode: load("mode"), say: t });
  const [state, setState] = useState(first);
  const [errors, setErrors] = useState({});
  const latest = useRef(state);

  function put(part) {
    const before = latest.current;
    latest.current = { ...before, ...part };
    unsent.set(name, latest.current);
    setState(latest.current);
    setErrors((now) => stillWrong(now, before, latest.current));
  }

  const seen = useRef(engines);
  useEffect(() => {
    if (seen.current !== engines) put(refreshed(latest.current, skill, engines));
    seen.current = engines;
  }, [engines]);

  return {
    state,
    errors,
    change: put,
    /** Another engine, mode or permission: the rest follows. */
    choose: (part) => put(rebased({ ...latest.current, ...part })),
    touch: (at) => setTimeout(() => setErrors((now) => touched(now, at, latest.current)), CLICK_MS),
    forget: () => unsent.delete(name),
    /** Everything is looked at; the places that are wrong, in their order. */
    check() {
      put({ input: tidied(latest.current.input), parameter: tidied(latest.current.parameter) });
      const found = Object.fromEntries(formFaults(latest.current).reverse().map(asError));
      setErrors(found);
      return Object.keys(found).reverse();
    },
    /** What the service refused: the places, and what has none. */
    refuse(problem) {
      const { placed, others } = refusal(problem, latest.current);
      const error = ({ text, isMissing }) => ({ text: isMissing ? t("form.fault.missing") : text, isTheirs: true });
      setErrors(Object.fromEntries([...placed].reverse().map((each) => [each.at, error(each)])));
      const wrong = new Set(placed.map((each) => each.at));
      const inOrder = formPlaces(latest.current).map((each) => each.at);
      return { places: inOrder.filter((at) => wrong.has(at)), others };
    },
    latest: () => latest.current,
  };
}

/** On leaving a field; that it is still empty is said only when the form is sent. */
function touched(errors, at, state) {
  const fault = formFaults(state).find((each) => each.at === at);
  const { [at]: before, ...others } = errors;
  if (before?.isTheirs) return errors;
  if (!fault) return before ? others : errors;
  return before || !isAbsence(fault) ? { ...errors, ...Object.fromEntries([asError(fault)]) } : errors;
}

const isAbsence = (fault) => /\.(missing|chooseOne|fileMissing|tooFew)$/.test(fault.key);

/** After a change: our own errors are looked at again, the service's go with the value they were about. */
function stillWrong(errors, before, after) {
  if (!Object.keys(errors).length) return errors;
  const found = new Map(formFaults(after).reverse().map(asError));
  const [was, is] = [requestOf(before), requestOf(after)];
  const kept = Object.entries(errors).map(([at, error]) => [
    at,
    error.isTheirs && isSame(was, is, at) ? error : found.get(at),
  ]);
  return Object.fromEntries(kept.filter(([, error]) => error));
}

function isSame(one, other, at) {
  const [a, b] = [valueAt(one, at), valueAt(other, at)];
  return a !== undefined && JSON.stringify(a) === JSON.stringify(b);
}

const valueAt = (body, at) =>
  at.split("/").reduce((found, part) => found?.[part.replace(/~1/g, "/").replace(/~0/g, "~")], body);
