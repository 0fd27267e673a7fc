// The threads.
import { useEffect, useMemo, useState } from "preact/hooks";
import { go } from "../client.js";
import { ago } from "../format.js";
import { html, memo } from "../html.js";
import { Icon, Mark } from "./icons.js";
import { views } from "./view.js";

// page is how many threads are drawn at a time.
const page = 80;

const themes = [["system", "auto", "Like the system"], ["light", "sun", "Light"], ["dark", "moon", "Dark"]];

export const Sidebar = memo(function Sidebar({ threads, current, view, seen, running, version, theme, client, onHelp, onClose }) {
  const [filter, setFilter] = useState("");
  const [shown, setShown] = useState(page);
  const [, tick] = useState(0);
  useEffect(() => {
    const t = setInterval(() => tick((n) => n + 1), 30_000);
    return () => clearInterval(t);
  }, []);
  const found = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    return (threads ?? []).filter((t) => words.every((w) => (t.title || t.id).toLowerCase().includes(w)));
  }, [threads, filter]);
  return html`<nav class="side" aria-label="List of threads">
    <div class="side-head">
      <a class="brand" href="#" onClick=${(e) => (e.preventDefault(), go(""))}><${Mark} size=${26} /><span>Iris</span></a>
      <button class="button ghost only-small" type="button" aria-label="Close the list of threads" onClick=${onClose}><${Icon} name="close" size=${18} /></button>
    </div>
    <button class="button new" type="button" onClick=${() => go("")}><${Icon} name="plus" /> New thread</button>
    <label class="search"><${Icon} name="search" size=${15} /><span class="sr">Search threads</span>
      <input type="search" placeholder="Search" value=${filter} onInput=${(e) => (setFilter(e.target.value), setShown(page))} /></label>
    <ul class="threads">
      ${found.slice(0, shown).map((t) => html`<${Row} key=${t.id} thread=${t} here=${t.id === current} busy=${t.running || (t.id === current && running)}
        unread=${t.id !== current && seen[t.id] && Date.parse(t.updated) > seen[t.id]} when=${ago(t.updated)} />`)}
      ${found.length > shown && html`<li><button class="button ghost wide" type="button" onClick=${() => setShown(shown + page)}>Show ${Math.min(page, found.length - shown)} more</button></li>`}
    </ul>
    ${threads?.length === 0 && html`<p class="side-empty">Your conversations will be listed here.</p>`}
    ${threads?.length > 0 && !found.length && html`<p class="side-empty">Nothing matches “${filter}”.</p>`}
    <div class="side-views">${Object.entries(views).map(([name, v]) => html`<a key=${name} href=${"#/" + name} aria-current=${view === name ? "page" : undefined}
      onClick=${onClose}><${Icon} name=${v.icon} size=${15} />${v.title}</a>`)}</div>
    <div class="side-foot">
      <div class="themes" role="radiogroup" aria-label="Theme">
        ${themes.map(([name, icon, label]) => html`<button key=${name} type="button" role="radio" aria-checked=${theme === name ? "true" : "false"}
          aria-label=${label} title=${label} onClick=${() => client.theme(name)}><${Icon} name=${icon} size=${15} /></button>`)}
      </div>
      <button class="button ghost" type="button" title="Keys and commands" aria-label="Keys and commands" onClick=${onHelp}><${Icon} name="keyboard" size=${17} /></button>
      <button class="button ghost" type="button" title="Log out" aria-label="Log out" onClick=${() => client.logout()}><${Icon} name="out" size=${17} /></button>
      <span class="version" title=${version}>${brief(version)}</span>
    </div>
  </nav>`;
});

// brief leaves of the version of an untagged build what tells it from others.
const brief = (version = "") => version.replace(/^v0\.0\.0-(?:\S*\.)?\d{14}-([0-9a-f]{7})[0-9a-f]*/, "$1");

const Row = memo(function Row({ thread, here, busy, unread, when }) {
  const title = thread.title || "Untitled";
  return html`<li><a class=${"row" + (here ? " here" : "") + (unread ? " unread" : "")} href=${"#" + thread.id}
    aria-current=${here ? "page" : undefined} title=${title}>
    <span class="row-title" dir="auto">${title}</span>
    ${busy ? html`<span class="dot" role="img" aria-label="running"></span>`
      : unread ? html`<span class="dot still" role="img" aria-label="unread"></span>`
      : html`<time class="row-time" datetime=${thread.updated}>${when}</time>`}
  </a></li>`;
});
