// The private side of a person: the line with Iris, the questions for consent,
// and what can still be taken back.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { Confirm } from "./dialog.js";
import { Icon } from "./icons.js";
import { Lines, Say } from "./lines.js";

export function Private({ view, me, hall, busy }) {
  const [erase, setErase] = useState(false);
  const own = view.private;
  if (!own) return null;
  const crowd = view.people.filter((p) => !p.away).length;
  const answer = (release, yes) => () => hall.event({ type: "consent", author: me.id, release, yes });
  const out = own.optOut?.length > 0;
  return html`<section class="col side-col" aria-label=${"The private line of " + me.name}>
    <h2 class="col-head"><${Icon} name="lock" size=${15} /> ${me.name} and Iris <small>nobody else reads this</small></h2>
    <${Lines} lines=${own.lines} people=${view.people} me=${me.id} empty=${"Nothing yet. What " + me.name + " writes here stays between the two."} />
    <div class="asks">
      ${own.consents.map((c) => html`<article key=${c.id} class="consent">
        <p class="consent-head"><${Icon} name="shield" size=${15} /> May Iris say this to the room, ${c.attribution === "named" ? "with your name" : "without your name"}?</p>
        <blockquote dir="auto">${c.wording}</blockquote>
        <p class="hint">${c.attribution === "named" ? "" : crowd < 4 ? "With " + crowd + " people here, they may guess it is you. " : "Each reader has " + (crowd - 1) + " others to think of. "}Only a yes is a yes.</p>
        <div class="item-foot"><button class="button small" type="button" disabled=${busy} onClick=${answer(c.id, false)}>No</button>
          <button class="button small primary" type="button" disabled=${busy} onClick=${answer(c.id, true)}>Yes, these words</button></div>
      </article>`)}
      ${own.granted.map((c) => html`<article key=${"g" + c.id} class="consent granted">
        <p class="consent-head"><${Icon} name="clock" size=${15} /> You said yes. It is said behind somebody else’s next line, or after a while.</p>
        <blockquote dir="auto">${c.wording}</blockquote>
        <div class="item-foot"><button class="button small" type="button" disabled=${busy} onClick=${() => hall.event({ type: "revoke", author: me.id, release: c.id })}>Take it back</button></div>
      </article>`)}
    </div>
    <${Say} key=${"line-" + me.id} label=${"Tell Iris, as " + me.name} busy=${busy} onSay=${(text) => hall.event({ type: "caucus", author: me.id, text })} />
    <p class="col-foot links">
      ${me.away ? html`<button class="link" type="button" onClick=${() => hall.event({ type: "join", author: me.id, name: me.name, role: me.role })}>Come back</button>`
        : html`<button class="link" type="button" onClick=${() => hall.event({ type: "leave", author: me.id })}>Leave the room</button>`}
      ${out ? html`<span class="hint">opted out: ${own.optOut.join(", ")}</span>`
        : html`<button class="link" type="button" onClick=${() => hall.event({ type: "optout", author: me.id, text: "all" })}>Opt out</button>`}
      <button class="link" type="button" onClick=${() => setErase(true)}>Erase all I said</button>
    </p>
    ${erase && html`<${Confirm} title="Erase everything?" yes="Erase" onYes=${() => hall.event({ type: "erase", author: me.id })} onClose=${() => setErase(false)}>
      Iris forgets what ${me.name} said, in the room and in private, and all she made of it. The seat and the name stay.<//>`}
  </section>`;
}
