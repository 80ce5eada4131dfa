// From the events of a run to the items that are shown. Pure, and the same however the log is cut into pages:
// join(append(empty(), a), append(empty(), b)) shows what append(empty(), [...a, ...b]) shows.

/** `first` and `last` are the numbers of the events it was made of; `base` is where its first item stands, counted
 *  so that an item keeps its number when older ones come before it. */
export const empty = () => ({ items: [], places: new Map(), first: 0, last: 0, base: 0, sign: null, state: null });

const ENGINE = /^(assistant|raw)\./;
const ASK_BLOCK = /<ASK_USER_YAML>[\s\S]*?<\/ASK_USER_YAML>/gi;
const ASK_FENCE = /^[ \t]*(`{3,}|~{3,})[ \t]*ask_user_yaml[^\n]*\n[\s\S]*?^[ \t]*\1[ \t]*$/gim;
const LOOK_BACK = 8;

/** A message without the block that the service made a question of. */
export const withoutAskBlocks = (text) =>
  /ask_user_yaml/i.test(text) ? text.replace(ASK_FENCE, "").replace(ASK_BLOCK, "").trim() : text.trim();

const item = (event, kind, key, more) => ({
  kind,
  key,
  seq: event.seq,
  ts: event.ts,
  attempt: event.meta?.attempt ?? 0,
  ...more,
});

function message(event, isFinal) {
  const { message_id: id, text } = event.data;
  return item(event, "message", `message.${id}`, { text, isFinal });
}

function tool(event) {
  const { call_id: id, name, status, ...told } = event.data;
  const key = `tool.${event.meta?.attempt}.${event.raw_ref?.try ?? 0}.${id}`;
  return item(event, "tool", key, { name, status, endedAt: event.ts, ...told });
}

function answer(event) {
  const { interaction_id: id, resolution_mode: mode, response_preview: text = "", ...facts } = event.data;
  return item(event, "answer", `answer.${id}`, { id, mode, text, facts });
}

/** Of the changes of state only those are told that the words around them do not tell. */
function change(event) {
  const { trigger } = event.data;
  const turn = event.meta?.attempt ?? 0;
  if (trigger === "turn.started") return item(event, "turn", `turn.${turn}`, { turn });
  if (/^(restart|input)\./.test(trigger)) return item(event, "note", `note.${event.seq}`, { trigger });
  return null;
}

const READERS = {
  "conversation.started": (event) => item(event, "note", `note.${event.seq}`, { trigger: "started" }),
  "conversation.state.changed": change,
  "assistant.message.delta": (event) => message(event, false),
  "assistant.message.final": (event) => message(event, true),
  "assistant.reasoning": (event) => item(event, "reasoning", `reasoning.${event.seq}`, { text: event.data.text }),
  "assistant.tool_call": tool,
  "user.input.required": (event) =>
    item(event, "question", `question.${event.data.interaction_id}`, {
      id: event.data.interaction_id,
      question: event.data,
    }),
  "interaction.reply.accepted": answer,
  "interaction.auto_decide.timeout": answer,
  "interaction.withdrawn": answer,
  "diagnostic.warning": (event) => item(event, "warning", `warning.${event.seq}`, event.data),
  "raw.stdout": (event) => item(event, "raw", `raw.${event.seq}`, { stream: "stdout", text: event.data.text }),
  "raw.stderr": (event) => item(event, "raw", `raw.${event.seq}`, { stream: "stderr", text: event.data.text }),
  "conversation.completed": (event) => item(event, "end", "end", { state: "succeeded" }),
  "conversation.failed": (event) => item(event, "end", "end", { state: "failed" }),
  "conversation.canceled": (event) => item(event, "end", "end", { state: "canceled", ...event.data }),
};

/** Two items of the same key as one; the later of them speaks last. */
const MERGES = {
  message: (old, more) => {
    if (old.isFinal) return old;
    if (more.isFinal) return { ...old, text: more.text, isFinal: true };
    return { ...old, text: old.text + more.text };
  },
  tool: (old, more) => ({ ...old, ...more, seq: old.seq, ts: old.ts }),
};

/** Some engines send their thoughts in small pieces, others whole; only whole ones begin a paragraph. */
function glue(before, after) {
  const isWhole = /[.!?。！？…:)*]$/.test(before) && /^[\p{Lu}\p{Lo}*#]/u.test(after);
  return before + (isWhole ? "\n\n" : "") + after;
}

/** Items that stand side by side and say one thing. */
const NEIGHBOURS = {
  reasoning: (old, more) => ({ ...old, text: glue(old.text, more.text) }),
  raw: (old, more) => (old.stream === more.stream ? { ...old, text: `${old.text}\n${more.text}` } : null),
};

/** A question mostly repeats the agent's last message: then it is not shown a second time. */
function isToldBefore(items, { question, attempt }) {
  for (let at = items.length - 1; at >= Math.max(0, items.length - LOOK_BACK); at -= 1) {
    const { kind, attempt: turn, text } = items[at];
    if (kind === "message" && turn === attempt) return withoutAskBlocks(text) === question.prompt.trim();
  }
  return false;
}

/** The label of the option that an answer chose, if it chose one: the value is for the agent. */
function chosen({ items, places }, { id, text }) {
  const options = items[places.get(`question.${id}`)]?.question.options ?? [];
  return options.find(({ value }) => String(value) === text)?.label;
}

/** What only the items before it can tell about an item. */
const CONTEXTS = {
  question: (view, next) => ({ ...next, isTold: isToldBefore(view.items, next) }),
  answer: (view, next) => ({ ...next, label: chosen(view, next) }),
};

function absorb(view, next) {
  const { items, places } = view;
  const place = places.get(next.key);
  if (place !== undefined) {
    items[place] = MERGES[next.kind]?.(items[place], next) ?? items[place];
    return;
  }
  const last = items[items.length - 1];
  const joined = last?.kind === next.kind && last.attempt === next.attempt && NEIGHBOURS[next.kind]?.(last, next);
  if (joined) {
    items[items.length - 1] = joined;
    places.set(next.key, items.length - 1);
    return;
  }
  places.set(next.key, items.length);
  items.push(CONTEXTS[next.kind]?.(view, next) ?? next);
}

/** Takes further events of the log, in their order; what is known already is skipped. Changes `view` and returns it. */
export function append(view, events) {
  for (const event of events) {
    if (view.last && event.seq <= view.last) continue;
    view.first ||= event.seq;
    view.last = event.seq;
    if (ENGINE.test(event.type)) view.sign = event.ts;
    if (event.type === "conversation.state.changed") view.state = { name: event.data.to, since: event.ts };
    const next = READERS[event.type]?.(event);
    if (next) absorb(view, next);
  }
  return view;
}

/** Puts older events before newer ones. Changes `older` and returns it. */
export function join(older, newer) {
  if (!newer.first) return older;
  for (const next of newer.items) absorb(older, next);
  older.first ||= newer.first;
  older.last = newer.last;
  older.sign = newer.sign ?? older.sign;
  older.state = newer.state ?? older.state;
  older.base = newer.base - (older.items.length - newer.items.length);
  return older;
}
