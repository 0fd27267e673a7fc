// What is said around the composer: the connection, lines for this page alone,
// questions that wait for an answer, and what the thread costs.
import { useEffect, useState } from "preact/hooks";
import { count, money } from "../format.js";
import { html, memo } from "../html.js";
import { line } from "../markdown.js";
import { openAsks } from "../store.js";
import { Icon, Spinner } from "./icons.js";

// useNow is the time, as often as it is needed; 0 stops it.
export function useNow(every) {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    if (!every) return;
    const t = setInterval(() => set(Date.now()), every);
    return () => clearInterval(t);
  }, [every]);
  return Math.max(now, Date.now() - (every || 0));
}

// Banner says that there is no connection, once it matters.
export function Banner({ link, retryAt, waiting, client }) {
  const down = link === "waiting" || link === "offline" || link === "connecting";
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (!down) return setLate(false);
    const t = setTimeout(() => setLate(true), link === "offline" ? 0 : 700);
    return () => clearTimeout(t);
  }, [down, link === "offline"]);
  const now = useNow(down && late ? 500 : 0);
  if (!down || !late) return null;
  const left = Math.max(0, Math.ceil((retryAt - now) / 1000));
  const words = link === "offline" ? "You are offline."
    : link === "connecting" || !left ? "Reconnecting…"
    : `The connection is gone. Trying again in ${left} s.`;
  return html`<div class="banner" role="status">${link === "offline" ? html`<${Icon} name="warn" />` : html`<${Spinner} />`}
    <span>${words} ${waiting > 0 ? "Your message is kept and will be sent." : link === "offline" ? "What you write is sent when you are back." : ""}</span>
    ${link === "waiting" && html`<button class="button small" type="button" onClick=${() => client.link?.now()}>Try now</button>`}</div>`;
}

export function Flashes({ flashes, client }) {
  return html`<div class="flashes" aria-live="polite">${flashes.map((f) => html`<div key=${f.key} class=${"flash " + f.tone} role=${f.tone === "error" ? "alert" : undefined}>
    <span dangerouslySetInnerHTML=${{ __html: line(f.text ?? "") }}></span>
    <button class="button ghost" type="button" aria-label="Dismiss" onClick=${() => client.dismiss(f.key)}><${Icon} name="close" size=${14} /></button></div>`)}</div>`;
}

// Approvals shows what waits for a person, with the exact command.
export function Approvals({ data, client }) {
  const some = data.blocks.some((b) => b.items?.some((i) => i.kind === "ask" && !i.settled));
  const now = useNow(some ? 1000 : 0);
  const asks = some ? openAsks(data, now) : [];
  return asks.map((a) => html`<section key=${a.id} class="approval" role="alertdialog" aria-label="A question for you">
    <div class="approval-head"><${Icon} name="shield" size=${18} /><strong dir="auto">${a.text || "May this command run?"}</strong><${Left} until=${a.until} now=${now} /></div>
    ${a.command && html`<pre class="approval-command" tabindex="0"><code>${a.command}</code></pre>`}
    ${a.options ? html`<${Choices} ask=${a} client=${client} />` : html`<div class="approval-buttons">
      <button class="button" type="button" onClick=${() => client.answer(a.id, false)}>Deny</button>
      ${a.always && html`<button class="button" type="button" onClick=${() => client.answer(a.id, true, "always")}>Allow for this session</button>`}
      <button class="button primary" type="button" onClick=${() => client.answer(a.id, true)}>Allow once</button>
    </div>`}</section>`);
}

// Choices are the answers of a question to pick from: one at a press, or several
// and then sent. A message in the person's own words is an answer too.
function Choices({ ask, client }) {
  const [picked, set] = useState([]);
  const toggle = (n) => set(picked.includes(n) ? picked.filter((x) => x !== n) : [...picked, n].sort((x, y) => x - y));
  return html`<ul class="approval-choices">${ask.options.map((o, i) => html`<li key=${i}>
      ${ask.many
        ? html`<label><input type="checkbox" checked=${picked.includes(i + 1)} onChange=${() => toggle(i + 1)} /><span dir="auto">${o.label}</span></label>`
        : html`<button class="button" type="button" dir="auto" onClick=${() => client.answer(ask.id, true, "#" + (i + 1))}>${o.label}</button>`}
      ${o.about && html`<span class="approval-about" dir="auto">${o.about}</span>`}</li>`)}</ul>
    <div class="approval-buttons"><span class="approval-about">or write your own answer below</span>
      <button class="button" type="button" onClick=${() => client.answer(ask.id, false)}>No answer</button>
      ${ask.many && html`<button class="button primary" type="button" disabled=${!picked.length} onClick=${() => client.answer(ask.id, true, picked.map((n) => "#" + n).join(", "))}>Send</button>`}
    </div>`;
}

function Left({ until, now }) {
  const s = Math.max(0, Math.round((Date.parse(until) - now) / 1000));
  const words = s >= 7200 ? Math.round(s / 3600) + " h" : s >= 120 ? Math.round(s / 60) + " min" : s + " s";
  return html`<span class="approval-left">expires in ${words}</span>`;
}

const links = { open: "Connected", connecting: "Connecting…", waiting: "Reconnecting…", offline: "Offline", closed: "Loading…" };

export const StatusLine = memo(function StatusLine({ status, link, running }) {
  const u = status?.usage ?? {};
  const model = u.model || status?.model;
  const provider = u.provider || status?.provider;
  const tokens = (u.input ?? 0) + (u.cacheRead ?? 0) + (u.cacheWrite ?? 0);
  const full = u.context && u.window ? Math.round((100 * u.context) / u.window) : null;
  return html`<div class="status" aria-label="Status">
    <span class=${"link " + link}><i></i>${link === "open" && running ? "Working" : links[link] ?? link}</span>
    ${model && html`<span class="model" title="Model">${provider && provider !== model ? provider + " / " : ""}${model}</span>`}
    <span title="Tokens read and written in this thread">${count(tokens)} in · ${count(u.output)} out</span>
    <span title="Cost of this thread in US dollars">${money(u.cost)}</span>
    ${full !== null && html`<span class="context" title=${`${count(u.context)} of ${count(u.window)} tokens`}>context ${full < 1 ? "<1" : full}%</span>`}
  </div>`;
});
