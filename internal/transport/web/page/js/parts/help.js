// Keys and commands.
import { html } from "../html.js";
import { Dialog } from "./dialog.js";

const mod = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";

const keys = [
  [["Enter"], "Send"],
  [["Shift", "Enter"], "New line"],
  [["Esc"], "Stop what is running"],
  [["↑"], "Your last message, in an empty box"],
  [[mod, "K"], "Go to a thread, or do something"],
  [[mod, "Shift", "O"], "New thread"],
  [["/"], "Go to the message box; in it, commands"],
  [["?"], "This list"],
];

const commands = [
  ["/stop", "end the running turn"],
  ["/compact", "shorten what the model remembers"],
  ["/reset", "start afresh; the thread stays readable"],
  ["/new", "a new thread"],
  ["/help", "this list"],
];

export function Help({ onClose }) {
  return html`<${Dialog} label="Keys and commands" kind="help" onClose=${onClose}>
    <h2>Keys</h2>
    <dl>${keys.map(([combo, what]) => html`<div key=${what}><dt>${combo.map((k) => html`<kbd>${k}</kbd>`)}</dt><dd>${what}</dd></div>`)}</dl>
    <h2>Commands</h2>
    <dl>${commands.map(([name, what]) => html`<div key=${name}><dt><code>${name}</code></dt><dd>${what}</dd></div>`)}</dl>
    <form method="dialog" class="dialog-buttons"><button class="button" autofocus>Close</button></form><//>`;
}
