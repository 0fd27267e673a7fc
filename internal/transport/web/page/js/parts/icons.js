// The icons: strokes on a 24 by 24 grid.
import { html } from "../html.js";

const paths = {
  plus: "M12 5v14M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM20 20l-4-4",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  send: "M12 19V5M5.5 11.5 12 5l6.5 6.5",
  stop: "M7 7h10v10H7z",
  clip: "M20 11.5l-8.2 8.2a5 5 0 0 1-7.1-7.1l8.6-8.5a3.3 3.3 0 0 1 4.7 4.7l-8.5 8.4a1.7 1.7 0 0 1-2.4-2.3l7.8-7.8",
  terminal: "M4 5h16v14H4zM7.5 9.5l3 2.5-3 2.5M12.5 15h4",
  file: "M13 3H6.5v18h11V7.5zM13 3v4.5h4.5",
  pencil: "M4 20l1-4L16.5 4.5l3 3L8 19z",
  plug: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7v5l3.5 2",
  robot: "M5 9h14v10H5zM12 9V5M12 4.5h.01M9 13.5h.01M15 13.5h.01M9.5 16.5h5M2.5 12.5v3M21.5 12.5v3",
  play: "M8 5.5v13l10.5-6.5z",
  pause: "M8.5 6v12M15.5 6v12",
  chat: "M4 5h16v11h-9l-4.5 4v-4H4z",
  wrench: "M19.8 7.2a4.6 4.6 0 0 1-6.2 5.6l-6.3 6.3a1.9 1.9 0 0 1-2.7-2.7l6.3-6.3a4.6 4.6 0 0 1 5.6-6.2l-2.8 2.8.5 2.8 2.8.5Z",
  spark: "M12 4v4M12 16v4M4 12h4M16 12h4M6.5 6.5l2.5 2.5M15 15l2.5 2.5M17.5 6.5 15 9M9 15l-2.5 2.5",
  check: "M5 12.5l4.5 4.5L19 7",
  cross: "M7 7l10 10M17 7L7 17",
  down: "M12 5v14M6 13l6 6 6-6",
  chevron: "M9 6l6 6-6 6",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 2v2.5M12 19.5V22M2 12h2.5M19.5 12H22M5 5l1.7 1.7M17.3 17.3 19 19M19 5l-1.7 1.7M6.7 17.3 5 19",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z",
  auto: "M4 5h16v11H4zM9 20h6M12 16v4",
  more: "M5 12h.5M11.8 12h.5M18.5 12h.5",
  shield: "M12 3l7.5 3v5.5c0 4.5-3 8-7.5 9.5-4.5-1.5-7.5-5-7.5-9.5V6z",
  keyboard: "M3 6.5h18v11H3zM7 10h.01M10.5 10h.01M14 10h.01M17.5 10h.01M8 14h8",
  out: "M14 4h5v16h-5M4 12h11M11 8l4 4-4 4",
  fold: "M4 9h16M4 15h16M12 3v3.5M12 17.5V21",
  fresh: "M4 12a8 8 0 1 0 2.5-5.8M4 4v4.5h4.5",
  people: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM2.5 20a6.5 6.5 0 0 1 13 0M16 4.3a3.5 3.5 0 0 1 0 6.4M18.5 14.5a6.5 6.5 0 0 1 3 5.5",
  board: "M4 4h16v16H4zM9.5 4v16M4 10h5.5M14.5 9h2.5M14.5 13h2.5",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  left: "M15 6l-6 6 6 6",
  step: "M6 5v14M10 6l8 6-8 6z",
  warn: "M12 4l9 16H3zM12 10v4.5M12 17.2h.01",
};

export function Icon({ name, size = 16 }) {
  return html`<svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" fill="none" stroke="currentColor"
    stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${paths[name]} /></svg>`;
}

export function Mark({ size = 28 }) {
  return html`<svg class="mark" width=${size} height=${size} viewBox="0 0 32 32" aria-hidden="true">
    <circle cx="16" cy="16" r="15" class="mark-disc" />
    <circle cx="16" cy="16" r="8.5" class="mark-ring" /><circle cx="16" cy="16" r="3.2" class="mark-eye" /></svg>`;
}

export const Spinner = () => html`<span class="spinner" aria-hidden="true"></span>`;

const tools = [
  [/^bash$|shell|exec|command/i, "terminal"],
  [/^mcp__/, "plug"],
  [/write|edit|patch/i, "pencil"],
  [/attach|upload/i, "clip"],
  [/read|file|glob|list/i, "file"],
  [/search|grep|find|fetch|web/i, "search"],
  [/schedule|cron|event|wait/i, "clock"],
];

export const toolIcon = (name = "") => tools.find(([re]) => re.test(name))?.[1] ?? "wrench";
