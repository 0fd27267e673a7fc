// Iris's own side, for whoever runs the room: what she keeps of everybody, why she
// chose what she did, and the stepper.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { Icon } from "./icons.js";

export function Inside({ view, hall, busy }) {
  const [page, setPage] = useState("iris/introspection/log.md");
  const inside = view.sealed;
  if (!inside) return null;
  const pages = Object.keys(inside.pages).filter((p) => p !== "room.md").sort();
  const at = inside.pages[page] === undefined ? pages[0] : page;
  return html`<section class="col side-col inside" aria-label="Iris’s side">
    <h2 class="col-head"><${Icon} name="lock" size=${15} /> Iris’s side <small>for you alone, not for the room</small></h2>
    <p class="ledger">All her choices together can have told the room at most <strong>${inside.bits.toFixed(1)} bits</strong> of what she knows${inside.tokens ? html`; ${inside.tokens} tokens so far` : ""}.</p>
    <${Stepper} view=${view} hall=${hall} busy=${busy} />
    <label class="page-pick">She keeps <select value=${at} onChange=${(e) => setPage(e.target.value)}>
      ${pages.map((p) => html`<option key=${p} value=${p}>${label(p, view.people)}</option>`)}</select></label>
    <pre class="kept" tabindex="0">${inside.pages[at]?.trim() || "Nothing yet."}</pre>
  </section>`;
}

function label(path, people) {
  const id = /^people\/(.*)\.md$/.exec(path)?.[1];
  if (id) return "of " + (people.find((p) => p.id === id)?.name ?? id);
  return path.includes("introspection") ? "why she chose" : path;
}

function Stepper({ view, hall, busy }) {
  const [who, setWho] = useState(view.people[0].id);
  const [text, setText] = useState("");
  const [line, setLine] = useState(false);
  const steps = view.steps;
  if (!steps) {
    return html`<div class="stepper"><button class="button small" type="button" disabled=${busy} onClick=${() => hall.step({ op: "start" })}><${Icon} name="step" size=${14} /> Step through by hand</button>
      <p class="hint">Try events one beat at a time, with undo. Nothing reaches the room before you keep it.</p></div>`;
  }
  const inject = async () => {
    if (!text.trim()) return;
    if (await hall.step({ op: "next", event: { type: line ? "caucus" : "message", author: who, text: text.trim() } })) setText("");
  };
  const b = (op, icon, title, off) => html`<button class="button small" type="button" title=${title} aria-label=${title} disabled=${busy || off} onClick=${() => hall.step({ op })}><${Icon} name=${icon} size=${14} /></button>`;
  return html`<div class="stepper open">
    <div class="stepper-row">${b("prev", "left", "One step back (undo)", !steps.canPrev)}${b("next", "chevron", steps.canRedo ? "Redo " + steps.next : "One step on: " + steps.next, steps.next === "msg" && !steps.canRedo)}
      <span class="stepper-at">${steps.cursor + 1} of ${steps.history.length} · next ${steps.next}</span>
      ${steps.branches.length > 1 && html`<select aria-label="Branch" value=${steps.branch} onChange=${(e) => hall.step({ op: "switch", branch: e.target.value })}>
        ${steps.branches.map((x) => html`<option key=${x} value=${x}>${x}</option>`)}</select>`}</div>
    <ol class="history">${steps.history.map((h, i) => html`<li key=${i} class=${i === steps.cursor ? "here" : i > steps.cursor ? "ahead" : ""}>
      <button type="button" disabled=${busy} onClick=${() => hall.step({ op: "goto", n: i })}>${h.label}${h.target ? " → " + h.target : ""}</button>
      ${h.said && html`<q dir="auto">${h.said}</q>`}${h.changed?.length > 0 && html`<small>${h.changed.join(", ")}</small>`}</li>`)}</ol>
    <div class="stepper-row"><select aria-label="Who" value=${who} onChange=${(e) => setWho(e.target.value)}>${view.people.map((p) => html`<option key=${p.id} value=${p.id}>${p.name}</option>`)}</select>
      <label class="check"><input type="checkbox" checked=${line} onChange=${(e) => setLine(e.target.checked)} /> in private</label></div>
    <form class="stepper-row" onSubmit=${(e) => (e.preventDefault(), inject())}><input aria-label="What they say" placeholder="What they say" value=${text} onInput=${(e) => setText(e.target.value)} />
      <button class="button small" disabled=${busy || !text.trim()}>Take</button></form>
    <details><summary>What the room would read here</summary><pre class="kept">${steps.room}</pre></details>
    <div class="item-foot"><button class="button small" type="button" disabled=${busy} onClick=${() => hall.step({ op: "stop" })}>Drop</button>
      <button class="button small primary" type="button" disabled=${busy} onClick=${() => hall.step({ op: "commit" })}>Keep up to here</button></div>
  </div>`;
}
