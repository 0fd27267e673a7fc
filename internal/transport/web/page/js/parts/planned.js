// What is planned: when, what, where, and what can be done about it.
import { useState } from "preact/hooks";
import { go } from "../client.js";
import { html } from "../html.js";
import * as kept from "../kept.js";
import { rows } from "../planned.js";
import { useNow } from "./status.js";
import { Confirm } from "./dialog.js";
import { Icon } from "./icons.js";

export function Planned({ client, state, data }) {
  const [cancel, setCancel] = useState(null);
  const now = useNow(10_000);
  const titles = Object.fromEntries((state.threads ?? []).map((t) => [t.id, t.title]));
  const all = rows(data.schedules ?? [], titles, now);
  if (!all.length) return html`<${Nothing} />`;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return html`<p class="view-note">Times are those of your clock${zone ? ` (${zone.replaceAll("_", " ")})` : ""}. Ask Iris in any thread to plan more.</p>
    <ul class="cards">${all.map((r) => html`<${Row} key=${r.file} row=${r} client=${client} onCancel=${() => setCancel(r)} />`)}</ul>
    ${cancel && html`<${Confirm} title=${dead(cancel) ? "Delete this?" : "Cancel this?"} yes=${dead(cancel) ? "Delete" : "Cancel it"} no="Keep it" onClose=${() => setCancel(null)}
      onYes=${() => client.views.change(cancel.file, "cancel", dead(cancel) ? "Deleted." : "Cancelled.")}>
      <span class="quote" dir="auto">${cancel.text || cancel.file}</span>${dead(cancel) ? "" : cancel.once ? "It will not run. " : "It will not run again. "}The event file is deleted.<//>`}`;
}

// dead is what will not run anyway.
const dead = (row) => row.state === "broken" || row.state === "over";

const states = { broken: "Cannot run", paused: "Paused", over: "Its time is over" };

function Row({ row, client, onCancel }) {
  const [busy, setBusy] = useState(false);
  const act = (action, said) => async () => {
    setBusy(true);
    await client.views.change(row.file, action, said);
    setBusy(false);
  };
  return html`<li class=${"card " + row.state}>
    <div class="card-head">
      ${row.state === "due" ? html`<time class="card-when" datetime=${row.datetime}>${row.when}</time>` : html`<span class="card-when">${states[row.state]}</span>`}
      ${row.left && html`<span class="card-left">${row.left}</span>`}
      ${row.own && html`<span class="card-own">${row.own}</span>`}
    </div>
    <${Text} text=${row.text || row.file} />
    ${row.problem && html`<p class="card-trouble">${row.problem} <code>${row.file}</code></p>`}
    <p class="card-meta">
      ${row.rule && html`<span title=${row.cron}>${row.rule}</span>`}
      ${row.then.length > 0 && html`<span>then ${row.then.join("; ")}</span>`}
      ${row.text && html`<span>in ${row.where.href ? html`<a href=${row.where.href} dir="auto">${row.where.label}</a>` : row.where.label}</span>`}
    </p>
    <div class="card-buttons">
      ${row.state !== "broken" && html`<button class="button small" type="button" disabled=${busy} onClick=${act("run", "It runs once now, besides its times.")}><${Icon} name="play" size=${14} />Run now</button>`}
      ${row.state === "paused" && html`<button class="button small" type="button" disabled=${busy} onClick=${act("resume", "It runs again.")}><${Icon} name="fresh" size=${14} />Resume</button>`}
      ${row.state === "due" && row.rule && html`<button class="button small" type="button" disabled=${busy} onClick=${act("pause", "Paused: it stays here and does not run.")}><${Icon} name="pause" size=${14} />Pause</button>`}
      <button class="button small quiet" type="button" disabled=${busy} onClick=${onCancel}><${Icon} name="close" size=${14} />${dead(row) ? "Delete" : "Cancel"}</button>
    </div>
  </li>`;
}

// long is how much of a text is shown before somebody asks for the rest.
const long = 280;

function Text({ text }) {
  const [open, setOpen] = useState(false);
  const cut = !open && text.length > long + 40;
  return html`<p class="card-text" dir="auto">${cut ? text.slice(0, long).trimEnd() + "… " : text}
    ${cut && html`<button class="link" type="button" onClick=${() => setOpen(true)}>Show all</button>`}</p>`;
}

const example = "Every weekday at nine, look at the open tickets and tell me which are urgent.";

function Nothing() {
  const ask = () => {
    kept.keepDraft("new", example);
    go("");
  };
  return html`<div class="nothing">
    <${Icon} name="clock" size=${40} />
    <h2>Nothing is planned</h2>
    <p>Tell Iris in a thread what to do and when, once or again and again. She wakes there and does it.</p>
    <button class="prompt" type="button" onClick=${ask}><${Icon} name="pencil" size=${17} /><span>${example}</span></button>
    <p class="hint">In a terminal: <code>iris schedule add --help</code></p>
  </div>`;
}
