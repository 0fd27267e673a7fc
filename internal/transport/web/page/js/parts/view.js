// The frame of a view beside the threads: its title, the way back, and what came
// of what was done.
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { Agents } from "./agents.js";
import { Hall } from "./council.js";
import { Icon, Spinner } from "./icons.js";
import { Planned } from "./planned.js";

// views are what can be shown beside the threads, in the order of the sidebar. One
// with a whole draws its own frame.
export const views = {
  council: { icon: "people", title: "Council", whole: Hall },
  planned: { icon: "clock", title: "Planned", part: Planned },
  agents: { icon: "robot", title: "Agents", part: Agents },
};

export function View(props) {
  const whole = views[props.state.view].whole ?? Framed;
  return html`<${whole} ...${props} />`;
}

function Framed({ client, state, drawer, onDrawer }) {
  const { title, part } = views[state.view];
  const shown = state.shown ?? {};
  const region = useRef();
  // What is shown gets the focus, so that readers hear where they are and keys
  // scroll it; again when what had it is gone.
  useEffect(() => region.current.focus({ preventScroll: true }), [state.view]);
  useEffect(() => {
    if (document.activeElement === document.body) region.current.focus({ preventScroll: true });
  }, [shown.data]);
  return html`<header class="top">
      <button class="button ghost only-small" type="button" aria-label="Threads" aria-expanded=${drawer ? "true" : "false"} onClick=${onDrawer}><${Icon} name="menu" size=${20} /></button>
      <h1 class="top-title">${title}</h1>
      <button class="button ghost" type="button" aria-label="Back to the thread" title="Back to the thread (Esc)" onClick=${() => client.back()}><${Icon} name="close" size=${18} /></button>
    </header>
    <div class="scroll" ref=${region} tabindex="-1" role="region" aria-label=${title} aria-busy=${shown.data ? "false" : "true"}>
      <div class="view">
        ${shown.trouble && html`<p class="view-trouble" role="alert"><${Icon} name="warn" /><span>${shown.trouble}</span></p>`}
        ${shown.data ? html`<${part} client=${client} state=${state} data=${shown.data} />` : !shown.trouble && html`<p class="view-wait"><${Spinner} /> Looking…</p>`}
      </div>
      <p class=${shown.said ? "view-said" : "sr"} role="status">${shown.said && html`<${Icon} name="check" />`}${shown.said}</p>
    </div>`;
}
