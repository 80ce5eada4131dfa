// What this browser remembers of the last choices; nothing is lost where storage is forbidden.

const name = (what) => `turnkeeper.last.${what}`;

export function load(what) {
  try {
    return localStorage.getItem(name(what)) ?? undefined;
  } catch {
    return undefined;
  }
}

export function save(what, value) {
  try {
    localStorage.setItem(name(what), value);
  } catch {
    // chosen again the next time
  }
}
