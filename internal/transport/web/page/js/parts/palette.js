// Ctrl+K: threads and actions by a few letters.
import { useMemo, useRef, useState } from "preact/hooks";
import { go } from "../client.js";
import { ago } from "../format.js";
import { html } from "../html.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";
import { views } from "./view.js";

const most = 12;

export function Palette({ client, state, running, onClose, onHelp }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef();
  const rows = useMemo(() => {
    const actions = [
      { icon: "plus", label: "New thread", run: () => go("") },
      running && { icon: "stop", label: "Stop what is running", run: () => client.command("stop") },
      { icon: "fold", label: "Compact the context", run: () => client.command("compact") },
      ...Object.entries(views).map(([name, v]) => ({ icon: v.icon, label: v.title, run: () => go("/" + name) })),
      { icon: "sun", label: "Light theme", run: () => client.theme("light") },
      { icon: "moon", label: "Dark theme", run: () => client.theme("dark") },
      { icon: "auto", label: "Theme like the system", run: () => client.theme("system") },
      { icon: "keyboard", label: "Keys and commands", run: onHelp, stay: true },
      { icon: "out", label: "Log out", run: () => client.logout() },
    ].filter(Boolean);
    const threads = (state.threads ?? []).map((t) => ({ icon: "file", label: t.title || "Untitled", note: ago(t.updated), run: () => go(t.id) }));
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const hit = (r) => words.every((w) => r.label.toLowerCase().includes(w));
    return (words.length ? [...actions, ...threads].filter(hit) : [actions[0], ...threads.slice(0, 6), ...actions.slice(1)]).slice(0, most);
  }, [text, state.threads, running]);
  const run = (r) => {
    if (!r) return;
    if (!r.stay) onClose();
    r.run();
  };
  const keys = (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step && rows.length) {
      e.preventDefault();
      const next = (at + step + rows.length) % rows.length;
      setAt(next);
      list.current.children[next]?.scrollIntoView({ block: "nearest" });
    } else if (e.key === "Enter") {
      e.preventDefault();
      run(rows[at]);
    }
  };
  return html`<${Dialog} label="Go to a thread, or do something" kind="palette" onClose=${onClose}>
    <input autofocus type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-label="Threads and actions"
      aria-activedescendant=${rows[at] ? "palette-" + at : undefined} placeholder="Threads and actions" value=${text}
      onInput=${(e) => (setText(e.target.value), setAt(0))} onKeyDown=${keys} />
    <ul id="palette-list" role="listbox" aria-label="Results" ref=${list}>
      ${rows.map((r, i) => html`<li key=${i + r.label} id=${"palette-" + i} role="option" aria-selected=${i === at ? "true" : "false"}
        onPointerMove=${() => i !== at && setAt(i)} onClick=${() => run(r)}><${Icon} name=${r.icon} /><span dir="auto">${r.label}</span><small>${r.note}</small></li>`)}
      ${!rows.length && html`<li class="none">Nothing matches.</li>`}
    </ul><//>`;
}
