// What the page says, in the language of the reader: words, times, sizes. Other rooms add their own words.
import { now } from "./clock.js";
import { createStore } from "./store.js";

const KEPT_AS = "turnkeeper.language";
export const LANGUAGES = { en: "English", zh: "简体中文" };
const LOCALES = { en: "en-GB", zh: "zh-CN" };
const words = { en: {}, zh: {} };

function remembered() {
  try {
    return localStorage.getItem(KEPT_AS);
  } catch {
    return null; // storage may be forbidden; the page works without
  }
}

const preferred = () => (/^zh\b/i.test(navigator.language ?? "") ? "zh" : "en");
const chosen = createStore(remembered() in LANGUAGES ? remembered() : preferred());

export const languageStore = chosen;
export const language = () => chosen.get();

export function setLanguage(name) {
  try {
    localStorage.setItem(KEPT_AS, name);
  } catch {
    // not remembered, but spoken from now on
  }
  chosen.set(name);
}

/** Each language has the same keys; a value is a text with `{name}` places, or a function of the values. */
export function addWords(more) {
  for (const name of Object.keys(words)) Object.assign(words[name], more[name]);
}

export function t(key, values = {}) {
  const text = words[language()][key] ?? words.en[key] ?? key;
  if (typeof text === "function") return text(values);
  return text.replace(/\{(\w+)\}/g, (place, name) => (name in values ? String(values[name]) : place));
}

/** Whether there is a word for it: codes of a newer service may have none. */
export const hasWord = (key) => key in words.en;

const STEPS = [
  ["year", 365 * 86400],
  ["month", 30 * 86400],
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];

/** "3 minutes ago", "in 2 hours". */
export function ago(iso) {
  const seconds = (Date.parse(iso) - now()) / 1000;
  if (Math.abs(seconds) < 10) return t("time.now");
  const format = new Intl.RelativeTimeFormat(LOCALES[language()], { numeric: "auto", style: "short" });
  for (const [unit, size] of STEPS) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  }
  return format.format(Math.trunc(seconds), "second");
}

/** Date and time of the reader's own zone. */
export function moment(iso) {
  const format = new Intl.DateTimeFormat(LOCALES[language()], { dateStyle: "medium", timeStyle: "medium" });
  return format.format(new Date(iso));
}

export function clockTime(iso) {
  const format = new Intl.DateTimeFormat(LOCALES[language()], { hour: "2-digit", minute: "2-digit" });
  return format.format(new Date(iso));
}

/** "45 s", "3 min 20 s", "2 h 5 min", "1 d 4 h": the two largest units. */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const units = [
    ["time.d", Math.floor(whole / 86400)],
    ["time.h", Math.floor(whole / 3600) % 24],
    ["time.min", Math.floor(whole / 60) % 60],
    ["time.s", whole % 60],
  ];
  const first = units.findIndex(([, n]) => n > 0);
  if (first < 0) return t("time.s", { n: 0 });
  const shown = units.slice(first, first + 2).filter(([, n]) => n > 0);
  return shown.map(([key, n]) => t(key, { n })).join(" ");
}

export function number(n) {
  return new Intl.NumberFormat(LOCALES[language()]).format(n);
}

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = n;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) [size, unit] = [size / 1000, unit + 1];
  const digits = unit > 0 && size < 10 ? 1 : 0;
  return `${size.toFixed(digits)} ${units[unit]}`;
}
