// Small line drawings, hidden from screen readers: a control says its name in words.
import { html } from "./preact.js";

const SHAPES = {
  inbox: "M3 13h5l1.5 3h5L16 13h5M3 13l3-8h12l3 8v6H3z",
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  search: "M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM20 20l-4-4",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 13l4 4L19 7",
  down: "M12 5v14M6 13l6 6 6-6",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  again: "M4 12a8 8 0 1 0 3-6.2M4 4v5h5",
  stop: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM9 9h6v6H9z",
  bell: "M6 16V11a6 6 0 1 1 12 0v5l2 2H4zM10 20h4",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  log: "M4 5h16v14H4zM7 9l3 3-3 3M12 15h5",
  tool: "M14 6a4 4 0 0 1 5-1l-3 3 1 2 2 1 3-3a4 4 0 0 1-6 5l-8 8-3-3 8-8a4 4 0 0 1 1-4z",
  thought: "M12 4a7 6 0 0 1 0 12c-1 0-2 0-3-.4L5 18l1-4A6 6 0 0 1 5 10a7 6 0 0 1 7-6z",
  warn: "M12 4l9 16H3zM12 10v4M12 17v.5",
  info: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM12 11v5M12 8v.5",
  error: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM12 7v6M12 16v.5",
  ask: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 17v.5M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z",
  lock: "M6 11h12v9H6zM9 11V8a3 3 0 0 1 6 0v3",
  send: "M4 12l16-8-5 16-3-7z",
  skills: "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM5 17a3 3 0 0 1 3-3h11",
  engines: "M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${SHAPES[name]} />
  </svg>`;
}
