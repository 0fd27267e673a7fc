// What is planned: when, what, where, and what can be done about it.
import { useState } from "preact/hooks";
import { go } from "../client.js";
import { html } from "../html.js";
import * as kept from "../kept.js";
import { days, eventOf, rows, soon } from "../planned.js";
import { useNow } from "./status.js";
import { Confirm, Dialog } from "./dialog.js";
import { Icon } from "./icons.js";

export function Planned({ client, state, data }) {
  const [cancel, setCancel] = useState(null);
  const [making, setMaking] = useState(false);
  const now = useNow(10_000);
  const titles = Object.fromEntries((state.threads ?? []).map((t) => [t.id, t.title]));
  const all = rows(data.schedules ?? [], titles, now);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const make = making && html`<${Make} client=${client} threads=${state.threads ?? []} zone=${zone} onClose=${() => setMaking(false)} />`;
  if (!all.length) return html`<${Nothing} onMake=${() => setMaking(true)} />${make}`;
  return html`<div class="view-start"><p class="view-note">Times are those of your clock${zone ? ` (${zone.replaceAll("_", " ")})` : ""}. Ask Iris in any thread to plan more.</p>
      <button class="button small" type="button" onClick=${() => setMaking(true)}><${Icon} name="plus" size=${14} />Plan something</button></div>
    ${make}
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

function Make({ client, threads, zone, onClose }) {
  const [form, setForm] = useState(() => ({ text: "", how: "once", at: soon(Date.now()), time: "09:00", weekday: 1, cron: "0 9 * * 1-5", where: "" }));
  const [fresh] = useState(() => "WEBUI-" + kept.newID("t"));
  const [wrong, setWrong] = useState("");
  const put = (name) => (e) => {
    const value = e.target.value;
    setForm((f) => ({ ...f, [name]: value }));
  };
  const submit = async (e) => {
    e.preventDefault();
    try {
      const trouble = await client.views.plan(eventOf({ ...form, where: form.where || fresh }, zone));
      setWrong(trouble);
      if (!trouble) onClose();
    } catch (err) {
      setWrong(err.message);
    }
  };
  const choice = (name, label, of) => html`<label>${label}<select value=${form[name]} onChange=${put(name)}>
    ${of.map(([v, text]) => html`<option key=${v} value=${v}>${text}</option>`)}</select></label>`;
  const places = threads.map((t) => [t.id.startsWith("SESSION-") ? t.id : "WEBUI-" + t.id, t.title || "a thread"]);
  const hows = [["once", "Once"], ["hour", "Every hour"], ["day", "Every day"], ["weekdays", "Monday to Friday"], ["week", "Every week"], ["cron", "A cron line"]];
  return html`<${Dialog} label="Plan something" kind="make" onClose=${onClose}>
    <h2>Plan something</h2>
    <form onSubmit=${submit}>
      <label>What Iris is to do<textarea autofocus required rows="3" maxlength="4000" value=${form.text} onInput=${put("text")} placeholder="Look at the open tickets and say which are urgent."></textarea></label>
      <div class="pair">
        ${choice("how", "When", hows)}
        ${form.how === "once" && html`<label>Day and time<input type="datetime-local" required value=${form.at} onInput=${put("at")} /></label>`}
        ${form.how === "week" && choice("weekday", "On", days.map((d, i) => [i, d]))}
        ${["day", "weekdays", "week"].includes(form.how) && html`<label>At<input type="time" required value=${form.time} onInput=${put("time")} /></label>`}
        ${form.how === "cron" && html`<label>Cron line<input required spellcheck="false" value=${form.cron} onInput=${put("cron")} /></label>`}
      </div>
      ${choice("where", "She answers in", [["", "a new thread"], ...places])}
      ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
      <div class="dialog-buttons"><button class="button" type="button" onClick=${onClose}>Cancel</button><button class="button primary">Plan it</button></div>
    </form><//>`;
}

const example = "Every weekday at nine, look at the open tickets and tell me which are urgent.";

function Nothing({ onMake }) {
  const ask = () => {
    kept.keepDraft("new", example);
    go("");
  };
  return html`<div class="nothing">
    <${Icon} name="clock" size=${40} />
    <h2>Nothing is planned</h2>
    <p>Tell Iris in a thread what to do and when, once or again and again. She wakes there and does it.</p>
    <button class="prompt" type="button" onClick=${ask}><${Icon} name="pencil" size=${17} /><span>${example}</span></button>
    <button class="button" type="button" onClick=${onMake}><${Icon} name="plus" size=${15} />Plan something</button>
    <p class="hint">In a terminal: <code>iris schedule add --help</code></p>
  </div>`;
}
