// The frame: login or the sidebar, the thread and the composer; the keys that
// work everywhere.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { go } from "../client.js";
import { html } from "../html.js";
import { busy } from "../store.js";
import { Composer } from "./composer.js";
import { Drop } from "./files.js";
import { Help } from "./help.js";
import { Mark, Spinner } from "./icons.js";
import { Login } from "./login.js";
import { Palette } from "./palette.js";
import { Sidebar } from "./sidebar.js";
import { Approvals, Banner, Flashes, StatusLine } from "./status.js";
import { Thread } from "./thread.js";
import { Top } from "./top.js";
import { View, views } from "./view.js";

export function App({ client, state }) {
  useTitle(state);
  if (state.login === "checking") {
    return html`<main class="splash"><${Mark} size=${44} /><p role="status"><${Spinner} /> ${state.trouble || "Opening…"}</p></main>`;
  }
  if (state.login === "out") return html`<${Login} client=${client} />`;
  return html`<${Desk} client=${client} state=${state} />`;
}

function Desk({ client, state }) {
  const [drawer, setDrawer] = useState(false);
  const [layer, setLayer] = useState(""); // palette, help or nothing
  const box = useRef();
  const running = busy(state.data);
  const help = useCallback(() => setLayer("help"), []);
  const close = useCallback(() => setDrawer(false), []);

  useEffect(() => {
    const key = (e) => {
      const mod = e.ctrlKey || e.metaKey;
      if (mod && !e.shiftKey && !e.altKey && e.key.toLowerCase() === "k") {
        e.preventDefault();
        setLayer((l) => (l === "palette" ? "" : "palette"));
      } else if (mod && e.shiftKey && e.key.toLowerCase() === "o") {
        e.preventDefault();
        go("");
      } else if (e.key === "Escape" && !e.defaultPrevented && !document.querySelector("dialog[open]")) {
        if (drawer) setDrawer(false);
        else if (client.state.view) client.back();
        else if (busy(client.state.data)) client.command("stop");
      } else if (e.key === "?" && !typing(e.target)) {
        setLayer("help");
      } else if (e.key === "/" && !typing(e.target)) {
        e.preventDefault();
        box.current?.focus();
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, [drawer]);

  // A thread begins with writing, but not with a keyboard that covers it.
  useEffect(() => {
    setDrawer(false);
    if (!matchMedia("(pointer: coarse)").matches) box.current?.focus();
  }, [state.thread, state.view, state.council?.room]);

  const readOnly = state.thread.startsWith("SESSION-");
  return html`
    ${!state.view && html`<a class="skip" href="#composer" onClick=${(e) => (e.preventDefault(), box.current?.focus())}>Skip to the message box</a>`}
    <div class=${"desk" + (drawer ? " drawn" : "")}>
      <${Sidebar} threads=${state.threads} current=${state.view ? "" : state.thread} view=${state.view} seen=${state.seen} running=${running}
        version=${state.status?.version} theme=${state.theme} client=${client} onHelp=${help} onClose=${close} />
      <div class="scrim" onClick=${close}></div>
      ${state.view ? html`<main class="main"><${View} client=${client} state=${state} drawer=${drawer} onDrawer=${() => setDrawer(!drawer)} /></main>` : html`
      <main class="main">
        <${Top} client=${client} state=${state} running=${running} drawer=${drawer} onDrawer=${() => setDrawer(!drawer)} />
        <${Thread} key=${state.thread} client=${client} data=${state.data} loading=${state.loading} trouble=${state.trouble} thread=${state.thread} />
        <div class="foot">
          <${Flashes} flashes=${state.data.flashes} client=${client} />
          <${Banner} link=${state.link} retryAt=${state.retryAt} waiting=${state.data.pending.length} client=${client} />
          <${Approvals} data=${state.data} client=${client} />
          <${Composer} key=${"c" + state.thread} box=${box} client=${client} draft=${state.fresh ? "new" : state.thread} uploads=${state.uploads}
            agents=${state.agents} agent=${state.agent} running=${running} readOnly=${readOnly} data=${state.data} onHelp=${help} />
          <${StatusLine} status=${state.status} link=${state.link} running=${running} />
        </div>
      </main>`}
    </div>
    ${!readOnly && !state.view && html`<${Drop} client=${client} />`}
    ${layer === "palette" && html`<${Palette} client=${client} state=${state} running=${running} onClose=${() => setLayer("")} onHelp=${help} />`}
    ${layer === "help" && html`<${Help} onClose=${() => setLayer("")} />`}`;
}

const typing = (el) => el instanceof HTMLElement && (el.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName));

// useTitle keeps the tab's title and mark: what is open and whether something
// came while nobody looked.
function useTitle(state) {
  const title = state.login === "in" && (views[state.view]?.title ?? state.threads?.find((t) => t.id === state.thread)?.title);
  const unread = state.unread;
  useEffect(() => {
    document.title = (unread ? `(${unread}) ` : "") + (title ? title + " · Iris" : "Iris");
    const icon = unread ? "/favicon-unread.svg" : "/favicon.svg";
    const link = document.getElementById("favicon");
    if (link.getAttribute("href") !== icon) link.setAttribute("href", icon);
  }, [title, unread]);
}
