// The board: what everybody sees of the items, and, for a person, the card to
// contribute to one under seal.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { Icon } from "./icons.js";

// named are the results whose own names say too little.
const named = { weighedIn: "spoke on it" };

export function Board({ view, me, hall, busy }) {
  const { board, room } = view;
  return html`<div class="items">
    ${!board.length && html`<p class="nothing">The board is empty. ${me ? "Open an item, or ask the room something." : "It fills as people talk."}</p>`}
    ${board.map((c) => html`<${Card} key=${c.id} card=${c} room=${room} view=${view} me=${me} hall=${hall} busy=${busy} />`)}
    ${me && html`<${Open} me=${me} room=${room} hall=${hall} busy=${busy} />`}
  </div>`;
}

function Card({ card, room, view, me, hall, busy }) {
  const [label, ...rest] = room.fields;
  const state = card.fields.status;
  const facts = rest.filter((f) => f !== "status" && card.fields[f]);
  const votes = room.slots?.length === 1 && room.slots[0].kind === "option";
  const mine = view.private?.contributions[card.id];
  const hosts = view.people.some((p) => p.role === "host");
  const may = me && (!hosts || me.role === "host");
  return html`<article class=${"item" + (card.closed ? " closed" : "")}>
    <header><h3 dir="auto">${card.fields[label] || card.id}</h3>${state && html`<span class="badge">${state}</span>`}</header>
    ${facts.map((f) => html`<p key=${f} class="fact"><span>${f}</span> <strong dir="auto">${card.fields[f]}</strong></p>`)}
    ${card.options?.length > 0 && !(votes && me && !card.closed) && html`<ul class="options">${card.options.map((o) => html`<li key=${o} dir="auto">${o}</li>`)}</ul>`}
    ${Object.entries(card.result ?? {}).filter(([, v]) => v).map(([k, v]) => html`<p key=${k} class="fact"><span>${named[k] ?? k}</span> ${v}</p>`)}
    ${me && !card.closed && room.slots?.length > 0 && (votes
      ? html`<${Ballot} card=${card} slot=${room.slots[0]} mine=${mine} me=${me} hall=${hall} busy=${busy} />`
      : html`<${Contribute} card=${card} slots=${room.slots} mine=${mine} me=${me} hall=${hall} busy=${busy} />`)}
    ${may && votes && !card.closed && html`<div class="item-foot"><button class="button small" type="button" disabled=${busy}
      onClick=${() => hall.event({ type: "set", author: me.id, item: card.id, field: "status", text: room.statuses.at(-1) })}>Close the vote</button></div>`}
  </article>`;
}

function Ballot({ card, slot, mine, me, hall, busy }) {
  return html`<div class="ballot" role="radiogroup" aria-label="Your secret vote">
    ${(card.options ?? []).map((o) => html`<button key=${o} type="button" role="radio" disabled=${busy} aria-checked=${mine?.[slot.name] === o ? "true" : "false"}
      onClick=${() => hall.event({ type: "contribution", author: me.id, item: card.id, value: { [slot.name]: o } })}><span class="tick"></span>${o}</button>`)}
    <p class="sealed-note"><${Icon} name="lock" size=${12} /> Your vote is sealed. Turnout shows now, the outcome at close.</p>
  </div>`;
}

function Contribute({ card, slots, mine, me, hall, busy }) {
  const [open, setOpen] = useState(false);
  const [form, setForm] = useState({});
  const put = (name, value) => setForm((f) => ({ ...f, [name]: value }));
  if (!open) {
    return html`<div class="item-foot">${mine && html`<p class="sealed-note"><${Icon} name="lock" size=${12} /> Your part is sealed: ${Object.values(mine).join(", ")}</p>`}
      <button class="button small" type="button" onClick=${() => setOpen(true)}>${mine ? "Change your part" : "Add your part, sealed"}</button></div>`;
  }
  const submit = async (e) => {
    e.preventDefault();
    const value = Object.fromEntries(Object.entries(form).filter(([, v]) => v !== "" && !(Array.isArray(v) && !v.length)));
    if (await hall.event({ type: "contribution", author: me.id, item: card.id, value })) setOpen(false);
  };
  return html`<form class="contribute" onSubmit=${submit}>
    ${slots.map((s) => html`<label key=${s.name}>${s.name}${field(s, form[s.name], (v) => put(s.name, v), card)}</label>`)}
    <div class="item-foot"><button class="button small" type="button" onClick=${() => setOpen(false)}>Cancel</button>
      <button class="button small primary" disabled=${busy}>Seal it</button></div>
  </form>`;
}

function field(slot, value, put, card) {
  switch (slot.kind) {
    case "number":
      return html`<input type="number" min=${slot.min} max=${slot.max} value=${value ?? ""} onInput=${(e) => put(e.target.value === "" ? "" : +e.target.value)} />`;
    case "flag":
      return html`<input type="checkbox" checked=${!!value} onChange=${(e) => put(e.target.checked)} />`;
    case "word":
    case "option":
      return html`<select value=${value ?? ""} onChange=${(e) => put(e.target.value)}><option value="">–</option>
        ${(slot.kind === "word" ? slot.of : card.options ?? []).map((o) => html`<option key=${o} value=${o}>${o}</option>`)}</select>`;
    case "set":
      return html`<select multiple value=${value ?? []} onChange=${(e) => put([...e.target.selectedOptions].map((o) => o.value))}>
        ${(card.options ?? []).map((o) => html`<option key=${o} value=${o}>${o}</option>`)}</select>`;
  }
  return html`<input value=${value ?? ""} onInput=${(e) => put(e.target.value)} />`;
}

function Open({ me, room, hall, busy }) {
  const [open, setOpen] = useState(false);
  const [form, setForm] = useState({ label: "", options: "" });
  if (!open) return html`<button class="button small ghost open-item" type="button" onClick=${() => setOpen(true)}><${Icon} name="plus" size=${14} /> Open an item</button>`;
  const submit = async (e) => {
    e.preventDefault();
    const options = form.options.split(/[\n,|]+/).map((o) => o.trim()).filter(Boolean);
    const item = form.label.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40) || "item";
    if (await hall.event({ type: "open", author: me.id, item, text: form.label.trim(), options })) {
      setForm({ label: "", options: "" });
      setOpen(false);
    }
  };
  return html`<form class="item contribute" onSubmit=${submit}>
    <label>${room.fields[0]}<input required autofocus value=${form.label} onInput=${(e) => setForm({ ...form, label: e.target.value })} /></label>
    ${room.options && html`<label>${room.options}<input placeholder="between commas" value=${form.options} onInput=${(e) => setForm({ ...form, options: e.target.value })} /></label>`}
    <div class="item-foot"><button class="button small" type="button" onClick=${() => setOpen(false)}>Cancel</button><button class="button small primary" disabled=${busy}>Open</button></div>
  </form>`;
}
