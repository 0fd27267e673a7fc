// The agents: how they are, and the way to talk to one.
import { html } from "../html.js";
import { card, order } from "../fleet.js";
import { useNow } from "./status.js";
import { Icon } from "./icons.js";

export function Agents({ client, data }) {
  const now = useNow(10_000);
  if (!data.length) return html`<${Nothing} />`;
  return html`<ul class="cards">${order(data.map((a) => card(a, now))).map((a) => html`<${Card} key=${a.name} agent=${a} client=${client} />`)}</ul>`;
}

function Card({ agent, client }) {
  const talk = (e) => {
    if (e.metaKey || e.ctrlKey || e.shiftKey || e.button > 0) return; // another tab, as everywhere
    e.preventDefault();
    client.begin(agent.name);
  };
  return html`<li class=${"card agent " + agent.tone}>
    <div class="card-head">
      <span class="card-when">@${agent.name}</span>
      <span class="health"><i></i>${agent.state}${agent.since && html`<span class="health-since"> · ${agent.since}</span>`}</span>
      <a class="button small" href=${"/?agent=" + encodeURIComponent(agent.name)} onClick=${talk}><${Icon} name="chat" size=${14} />New thread</a>
    </div>
    ${agent.description && html`<p class="card-text" dir="auto">${agent.description}</p>`}
    ${agent.trouble && html`<p class="card-trouble">${agent.trouble}</p>`}
    ${agent.facts.length > 0 && html`<dl class="facts">${agent.facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`}
  </li>`;
}

function Nothing() {
  return html`<div class="nothing">
    <${Icon} name="robot" size=${40} />
    <h2>There are no agents</h2>
    <p>An agent is another Iris with a purpose, secrets and memory of its own. Ask Iris to make one, or do it in a terminal:</p>
    <p class="command"><code>iris agent spawn billing "Answers questions about invoices"</code></p>
    <p class="hint">Then <code>@billing</code> in any thread asks it.</p>
  </div>`;
}
