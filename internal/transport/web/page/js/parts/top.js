// The line above the thread: its title and what can be done with it.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { Icon } from "./icons.js";
import { Confirm } from "./dialog.js";

export function Top({ client, state, running, drawer, onDrawer }) {
  const [menu, setMenu] = useState(false);
  const [ask, setAsk] = useState(false);
  const box = useRef();
  useEffect(() => {
    if (!menu) return;
    const away = (e) => !box.current?.contains(e.target) && setMenu(false);
    addEventListener("pointerdown", away);
    box.current.querySelector("[role=menuitem]")?.focus();
    return () => removeEventListener("pointerdown", away);
  }, [menu]);
  const title = state.threads?.find((t) => t.id === state.thread)?.title || (state.fresh ? "New thread" : state.data.blocks.length ? "Thread" : "New thread");
  const pick = (f) => () => (setMenu(false), f());
  const keys = (e) => {
    if (e.key === "Escape") {
      e.preventDefault();
      setMenu(false);
      box.current.querySelector("button").focus();
    }
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
    e.preventDefault();
    const all = [...box.current.querySelectorAll("[role=menuitem]:not(:disabled)")];
    const at = all.indexOf(document.activeElement);
    all[(at + (e.key === "ArrowDown" ? 1 : all.length - 1)) % all.length]?.focus();
  };
  const readOnly = state.thread.startsWith("SESSION-");
  return html`<header class="top">
    <button class="button ghost only-small" type="button" aria-label="Threads" aria-expanded=${drawer ? "true" : "false"} onClick=${onDrawer}><${Icon} name="menu" size=${20} /></button>
    <h1 class="top-title" dir="auto" title=${title}>${title}</h1>
    ${!readOnly && html`<div class="menu" ref=${box} onKeyDown=${keys}>
      <button class="button ghost" type="button" id="thread-menu" aria-haspopup="menu" aria-expanded=${menu ? "true" : "false"} aria-label="Thread actions" onClick=${() => setMenu(!menu)}><${Icon} name="more" size=${20} /></button>
      ${menu && html`<div class="menu-list" role="menu" aria-labelledby="thread-menu">
        <button role="menuitem" type="button" disabled=${!running} onClick=${pick(() => client.command("stop"))}><${Icon} name="stop" /> Stop<kbd>Esc</kbd></button>
        <button role="menuitem" type="button" disabled=${running} onClick=${pick(() => client.command("compact"))}><${Icon} name="fold" /> Compact the context</button>
        <button role="menuitem" type="button" onClick=${pick(() => setAsk(true))}><${Icon} name="fresh" /> Reset the context…</button>
      </div>`}
    </div>`}
    ${ask && html`<${Confirm} title="Start afresh?" yes="Reset" onYes=${() => client.command("reset")} onClose=${() => setAsk(false)}>
      Iris forgets what was said in this thread and stops what is running. What you see here stays.<//>`}
  </header>`;
}
