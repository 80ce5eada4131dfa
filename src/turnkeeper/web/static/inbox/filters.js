// Search and filters of the inbox. They live in the address, so that "back" and a reload keep them.
import { api } from "../lib/api.js";
import { Icon } from "../lib/icons.js";
import { may } from "../lib/me.js";
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { hasWord, t } from "../lib/words.js";
import { STATUSES } from "./groups.js";

const PAUSE_MS = 250;

/** Names for the lists to choose from; without them one can still search. */
function useNames() {
  const [names, setNames] = useState({ skill: [], engine: [] });
  useEffect(() => {
    if (!may("read")) return;
    const read = (path, key, name) => api.get(path).then((body) => body[key].map((each) => each[name]));
    Promise.all([read("/v1/skills", "skills", "id"), read("/v1/engines", "engines", "name")]).then(
      ([skill, engine]) => setNames({ skill, engine }),
      () => {},
    );
  }, []);
  return names;
}

function Choose({ name, value, entries, onChange }) {
  const known = value && !entries.includes(value) ? [value, ...entries] : entries;
  const shown = (each) => (name === "status" && hasWord(`status.${each}`) ? t(`status.${each}`) : each);
  return html`<select aria-label=${t(`inbox.filter.${name}`)} value=${value ?? ""}
    onChange=${(event) => onChange({ [name]: event.currentTarget.value })}>
    <option value="">${t(`inbox.any.${name}`)}</option>
    ${known.map((each) => html`<option key=${each} value=${each}>${shown(each)}</option>`)}
  </select>`;
}

export function Filters({ filters, onChange, searchBox }) {
  const names = useNames();
  const [text, setText] = useState(filters.q ?? "");
  const timer = useRef(null);
  // A blank at the end is not searched for, but belongs to the word that comes next. Who types meanwhile is not interrupted.
  useEffect(() => {
    if (!timer.current) setText((was) => (was.trim() === (filters.q ?? "") ? was : (filters.q ?? "")));
  }, [filters.q]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (event) => {
    const q = event.currentTarget.value;
    setText(q);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      timer.current = null;
      onChange({ q: q.trim() });
    }, PAUSE_MS);
  };
  return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
    <div class="search"><${Icon} name="search" />
      <input type="search" ref=${searchBox} aria-label=${t("inbox.search")} placeholder=${t("inbox.search.hint")}
        aria-keyshortcuts="/" value=${text} onInput=${type} /></div>
    <${Choose} name="skill" value=${filters.skill} entries=${names.skill} onChange=${onChange} />
    <${Choose} name="engine" value=${filters.engine} entries=${names.engine} onChange=${onChange} />
    <${Choose} name="status" value=${filters.status} entries=${STATUSES} onChange=${onChange} />
  </form>`;
}
