// The council: the list of rooms, and a room with its board, the private line of
// whom it is looked at as, and Iris's own side.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { go } from "../client.js";
import { peopleOf, idOf } from "../council.js";
import { html } from "../html.js";
import { Board } from "./board.js";
import { Dialog } from "./dialog.js";
import { Icon, Mark, Spinner } from "./icons.js";
import { Lines, Say } from "./lines.js";
import { Private } from "./private.js";
import { Inside } from "./inside.js";

export function Hall({ client, state, drawer, onDrawer }) {
  const { council } = state;
  const hall = client.council;
  const [making, setMaking] = useState(false);
  const view = council.view;
  const title = council.room ? view?.room.topic || council.room : "Council";
  return html`
    <header class="top">
      <button class="button ghost only-small" type="button" aria-label="Threads" aria-expanded=${drawer ? "true" : "false"} onClick=${onDrawer}><${Icon} name="menu" size=${20} /></button>
      ${council.room && html`<a class="button ghost back" href="#/council" aria-label="All rooms"><${Icon} name="left" size=${18} /></a>`}
      <h1 class="top-title" dir="auto" title=${title}>${title}</h1>
      ${council.room && view && html`<span class="room-kind">${view.room.surface} · ${view.room.policy}${view.room.live ? "" : " · rules, no model"}</span>`}
      ${!council.room && html`<button class="button small" type="button" onClick=${() => setMaking(true)}><${Icon} name="plus" size=${14} /> New room</button>
        <button class="button ghost" type="button" aria-label="Back to the thread" title="Back to the thread (Esc)" onClick=${() => client.back()}><${Icon} name="close" size=${18} /></button>`}
    </header>
    ${council.room ? html`<${Room} council=${council} hall=${hall} />` : html`<${Rooms} council=${council} hall=${hall} onMake=${() => setMaking(true)} />`}
    ${making && html`<${Make} hall=${hall} error=${council.error} onClose=${() => setMaking(false)} />`}`;
}

const sample = {
  id: "garden", topic: "What the garden gets for nine hundred euros",
  participants: [{ id: "ida", name: "Ida", role: "host" }, ...["Jonas", "Mara", "Noor", "Pavel", "Tilda"].map((name) => ({ id: name.toLowerCase(), name }))],
};

function Rooms({ council, hall, onMake }) {
  const rooms = council.rooms;
  if (!rooms) return html`<p class="loading"><${Spinner} /> ${council.lost || "Opening…"}</p>`;
  if (!rooms.length) {
    const play = async () => (await hall.make(sample)) && go("/council/garden");
    return html`<div class="scroll"><div class="thread empty"><div class="welcome">
      <${Mark} size=${56} />
      <h2>A room that keeps secrets</h2>
      <p>Iris sits in a group: she hears the room, keeps the board, and has a private line with everybody in it.
        What is said there reaches the room in one way only: as exact words that person said yes to.</p>
      <div class="prompts">
        <button class="prompt" type="button" onClick=${onMake}><${Icon} name="plus" size=${18} /> Make a room for your group</button>
        <button class="prompt" type="button" onClick=${play}><${Icon} name="people" size=${18} /> Try it with six neighbours and a garden</button>
      </div>
      ${council.error && html`<p class="wrong" role="alert">${council.error}</p>`}
    </div></div></div>`;
  }
  return html`<div class="scroll"><ul class="rooms">
    ${rooms.map((r) => html`<li key=${r.id}><a class="room-row" href=${"#/council/" + r.id}>
      <strong dir="auto">${r.topic || r.id}</strong>
      <span>${r.participants.map((p) => p.name).join(", ")}</span>
      <small>${r.surface || "decisions"} · ${r.policy || "facilitator"} · ${r.channel}</small></a></li>`)}
  </ul></div>`;
}

function Room({ council, hall }) {
  const { view, as } = council;
  if (!view) return html`<p class="loading"><${Spinner} /> ${council.lost || "Opening the room…"}</p>`;
  const person = view.people.find((p) => p.id === as);
  const side = as === "self" ? "Iris" : person ? person.name : "";
  const panes = [["room", "Room"], ["board", "Board"], ...(side ? [["side", as === "self" ? "Iris’s side" : "Private"]] : [])];
  const pane = panes.some(([p]) => p === council.pane) ? council.pane : "room";
  return html`<div class=${"council show-" + pane + (side ? " with-side" : "")}>
    <${Viewers} view=${view} as=${as} hall=${hall} />
    <div class="panes" role="tablist" aria-label="What is shown">
      ${panes.map(([p, label]) => html`<button key=${p} type="button" role="tab" aria-selected=${pane === p ? "true" : "false"} onClick=${() => hall.show(p)}>${label}</button>`)}
    </div>
    ${(council.error || council.lost) && html`<p class="wrong" role="alert">${council.error || council.lost}</p>`}
    <div class="columns">
      <section class="col room" aria-label="The room">
        <h2 class="col-head"><${Icon} name="people" size=${15} /> The room <small>everybody reads this</small></h2>
        <${Lines} lines=${view.lines} people=${view.people} me=${person?.id} statements=${view.statements} empty="Nobody has said anything yet." />
        ${person ? html`<${Say} key=${"room-" + as} label=${"Say to the room as " + person.name} busy=${council.busy} onSay=${(text) => hall.event({ type: "message", author: as, text })} />`
          : html`<p class="col-foot hint">${as === "self" ? "Iris’s side is open: only you see it." : "Choose a person above to speak as them and to see their private line."}</p>`}
      </section>
      <section class="col board" aria-label="The board">
        <h2 class="col-head"><${Icon} name="board" size=${15} /> The board</h2>
        <${Board} view=${view} me=${person} hall=${hall} busy=${council.busy} />
      </section>
      ${person && html`<${Private} view=${view} me=${person} hall=${hall} busy=${council.busy} />`}
      ${as === "self" && html`<${Inside} view=${view} hall=${hall} busy=${council.busy} />`}
    </div>
  </div>`;
}

// Viewers chooses the level: everybody, a person, or Iris's own side.
function Viewers({ view, as, hall }) {
  const row = useRef();
  useLayoutEffect(() => {
    const here = row.current.querySelector("[aria-checked=true]");
    if (here) row.current.scrollLeft = here.offsetLeft - row.current.offsetLeft - (row.current.clientWidth - here.offsetWidth) / 2;
  }, [as]);
  const chip = (id, label, away) => html`<button key=${id} type="button" role="radio" aria-checked=${as === id ? "true" : "false"}
    class=${away ? "away" : ""} title=${away ? label + " is away" : ""} onClick=${() => hall.look(id)}>${label}</button>`;
  return html`<div class="viewers">
    <div class="viewer-row" ref=${row} role="radiogroup" aria-label="Look as">
      ${chip("", "Everybody")}
      ${view.people.map((p) => chip(p.id, p.name, p.away))}
    </div>
    <label class="switch" title="What only Iris knows: for whoever runs the room, for nobody in it">
      <input type="checkbox" role="switch" checked=${as === "self"} onChange=${(e) => hall.look(e.target.checked ? "self" : "")} />
      <span class="switch-track" aria-hidden="true"></span><${Icon} name="lock" size=${14} /><span class="switch-text"> Iris’s side</span></label>
  </div>`;
}

function Make({ hall, error, onClose }) {
  const [form, setForm] = useState({ topic: "", people: "", surface: "decisions", policy: "facilitator" });
  const [tried, setTried] = useState(false);
  const put = (name) => (e) => {
    const value = e.target.value;
    setForm((f) => ({ ...f, [name]: value }));
  };
  const people = peopleOf(form.people);
  const id = idOf(form.topic) || "room";
  const submit = async (e) => {
    e.preventDefault();
    setTried(true);
    if (people.length < 2) return;
    if (await hall.make({ id, topic: form.topic.trim(), surface: form.surface, policy: form.policy, participants: people })) {
      onClose();
      go("/council/" + id);
    }
  };
  const choice = (name, label, of) => html`<label>${label}<select value=${form[name]} onChange=${put(name)}>
    ${of.map(([v, text]) => html`<option key=${v} value=${v}>${text}</option>`)}</select></label>`;
  return html`<${Dialog} label="New room" kind="make" onClose=${onClose}>
    <h2>New room</h2>
    <form onSubmit=${submit}>
      <label>What it is about<input autofocus required maxlength="200" value=${form.topic} onInput=${put("topic")} placeholder="Where we meet in spring" /></label>
      <label>Who is in it<textarea rows="3" required value=${form.people} onInput=${put("people")} placeholder="Ana, Ben, Cy, Di, Eve"></textarea></label>
      <p class="hint">${people.length ? people.map((p) => p.name).join(", ") + (people.length < 4 ? ". With fewer than four, words without a name point at somebody." : "") : "Names, between commas."}</p>
      <div class="pair">
        ${choice("surface", "The board holds", [["decisions", "decisions"], ["poll", "secret votes"], ["tasks", "tasks"], ["availability", "dates"], ["concerns", "concerns"], ["terms", "terms"]])}
        ${choice("policy", "Iris is a", [["facilitator", "facilitator"], ["coach", "coach"], ["standup", "stand-up host"], ["vote-teller", "vote teller"]])}
      </div>
      ${tried && (error || people.length < 2) && html`<p class="wrong" role="alert">${people.length < 2 ? "A room needs at least two people." : error}</p>`}
      <div class="dialog-buttons"><button class="button" type="button" onClick=${onClose}>Cancel</button><button class="button primary">Make the room</button></div>
    </form><//>`;
}
