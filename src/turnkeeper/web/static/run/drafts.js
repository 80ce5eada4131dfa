// What somebody has typed and not sent yet, for each question; it survives a reload of the tab.
const FORM = "form.";
const nameOf = (runId, interactionId) => `turnkeeper.draft.${runId}.${interactionId}`;

function storage(work, otherwise) {
  try {
    return work(sessionStorage);
  } catch {
    return otherwise; // full or forbidden: the text is still in its box
  }
}

export const readDraft = (runId, id) => storage((store) => store.getItem(nameOf(runId, id)) ?? "", "");

/** A draft whose question is not the open one any more: `{id, text}`, or null. */
export function strandedDraft(runId, openId) {
  const start = nameOf(runId, "");
  const names = storage((store) => Object.keys(store), []).filter((name) => name.startsWith(start));
  const ids = names.map((name) => Number(name.slice(start.length).replace(FORM, ""))).filter(Number.isInteger);
  const id = ids.find((each) => each !== openId && leftOver(runId, each));
  return id === undefined ? null : { id, text: leftOver(runId, id) };
}

/** What was not sent: the words, else what stands in the fields. */
export function leftOver(runId, id) {
  const words = readDraft(runId, id);
  if (words.trim()) return words;
  const filled = Object.entries(readForm(runId, id)).filter(([, value]) => value !== "");
  return filled.map(([name, value]) => `${name}: ${value}`).join("\n");
}

export function keepDraft(runId, id, text) {
  storage((store) => (text ? store.setItem(nameOf(runId, id), text) : store.removeItem(nameOf(runId, id))));
}

/** The same for the fields of a question that has some. */
export function readForm(runId, id) {
  try {
    return JSON.parse(readDraft(runId, FORM + id) || "{}");
  } catch {
    return {};
  }
}

export const keepForm = (runId, id, values) => keepDraft(runId, FORM + id, values && JSON.stringify(values));

export function forget(runId, id) {
  keepDraft(runId, id, "");
  keepForm(runId, id, null);
}
