// Lines of a room or a private line, and the box below them.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { clock } from "../format.js";
import { html } from "../html.js";
import { Icon, Mark } from "./icons.js";

export function Lines({ lines, people, me, statements = [], empty }) {
  const box = useRef();
  const low = useRef(true);
  const n = lines.length;
  useLayoutEffect(() => {
    if (low.current) box.current.scrollTop = box.current.scrollHeight;
  }, [n, me]);
  const scrolled = () => {
    const b = box.current;
    low.current = b.scrollHeight - b.scrollTop - b.clientHeight < 60;
  };
  const name = (id) => people.find((p) => p.id === id)?.name ?? id;
  return html`<div class="lines" ref=${box} onScroll=${scrolled} tabindex="0" role="log">
    ${!n && html`<p class="nothing">${empty}</p>`}
    ${lines.map((l, i) => html`<${Line} key=${i} line=${l} name=${l.from === "iris" ? "Iris" : name(l.from)} mine=${l.from === me}
      same=${lines[i - 1]?.from === l.from} released=${l.from === "iris" && statements.some((s) => l.text.includes(s))} />`)}
  </div>`;
}

function Line({ line, name, mine, same, released }) {
  const iris = line.from === "iris";
  return html`<div class=${"line" + (iris ? " iris" : "") + (mine ? " mine" : "") + (same ? " same" : "")}>
    ${!same && html`<p class="line-head">${iris ? html`<${Mark} size=${16} />` : ""}<strong dir="auto">${name}</strong>
      ${line.at ? html`<time>${clock(line.at)}</time>` : ""}</p>`}
    <p class="line-text" dir="auto">${line.deleted ? html`<em>taken back</em>` : line.text}${line.edited && !line.deleted ? html` <small>(edited)</small>` : ""}</p>
    ${released && html`<p class="line-note"><${Icon} name="check" size=${13} /> released by whom it belongs to, word for word</p>`}
  </div>`;
}

export function Say({ label, busy, onSay }) {
  const [text, setText] = useState("");
  const send = async () => {
    const said = text.trim();
    if (!said || busy) return;
    setText("");
    if (!(await onSay(said))) setText(said);
  };
  const keys = (e) => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    send();
  };
  return html`<form class="say" onSubmit=${(e) => (e.preventDefault(), send())}>
    <textarea rows="1" aria-label=${label} placeholder=${label} value=${text} onInput=${(e) => setText(e.target.value)} onKeyDown=${keys}></textarea>
    <button class="button primary send" aria-label="Send" disabled=${!text.trim() || busy}><${Icon} name="send" size=${17} /></button>
  </form>`;
}
