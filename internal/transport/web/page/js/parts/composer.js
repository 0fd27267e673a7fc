// Where people write.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { go } from "../client.js";
import { html } from "../html.js";
import * as kept from "../kept.js";
import { Uploads } from "./files.js";
import { Icon } from "./icons.js";

const commands = [
  ["stop", "End the running turn"],
  ["compact", "Shorten what the model remembers"],
  ["reset", "Start afresh; the thread stays readable"],
  ["new", "A new thread"],
  ["help", "Keys and commands"],
];

export function Composer({ box, client, draft, uploads, agents, agent, running, readOnly, data, onHelp }) {
  const [text, setDrawn] = useState(() => kept.draft(draft));
  // Kept at once: an effect may come after the message has been sent.
  const setText = (value) => {
    kept.keepDraft(draft, value);
    setDrawn(value);
  };
  const [at, setAt] = useState(0);
  const [shut, setShut] = useState(false); // the menu was closed with Esc
  const picker = useRef();
  const uploading = uploads.some((u) => !u.local && !u.error);
  const files = uploads.filter((u) => u.local);
  const word = /^\/(\w*)$/.exec(text)?.[1];
  const menu = word === undefined || shut ? [] : commands.filter(([name]) => name.startsWith(word.toLowerCase()));
  const ready = (text.trim() || files.length) && !uploading;

  useLayoutEffect(() => {
    const b = box.current;
    if (!b) return;
    b.style.height = "auto";
    b.style.height = Math.min(b.scrollHeight, innerHeight * 0.4) + "px";
  }, [text]);
  useEffect(() => setAt(0), [word]);

  const run = (name) => {
    setText("");
    if (name === "help") onHelp();
    else if (name === "new") go("");
    else client.command(name);
  };

  const send = () => {
    const command = /^\/(\w+)\s*$/.exec(text)?.[1]?.toLowerCase();
    if (command && !files.length && commands.some(([name]) => name === command)) return run(command);
    if (!ready) return;
    const trouble = client.send(text.trim(), files.map((u) => ({ local: u.local, original: u.name })));
    if (trouble) return client.flash("error", trouble);
    for (const u of uploads) client.detach(u.key);
    setText("");
  };

  const keys = (e) => {
    if (e.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (menu.length) {
      if (step) {
        e.preventDefault();
        return setAt((at + step + menu.length) % menu.length);
      }
      if (e.key === "Enter" || e.key === "Tab") {
        e.preventDefault();
        return run(menu[at][0]);
      }
      if (e.key === "Escape") {
        e.preventDefault();
        return setShut(true);
      }
    }
    if (e.key === "Enter" && !e.shiftKey && !e.altKey) {
      e.preventDefault();
      send();
    } else if (e.key === "ArrowUp" && text === "") {
      const last = lastSaid(data);
      if (last) {
        e.preventDefault();
        setText(last);
      }
    }
  };

  const paste = (e) => {
    if (!e.clipboardData.files.length) return;
    e.preventDefault();
    client.attach(e.clipboardData.files);
  };

  if (readOnly) {
    return html`<div class="composer read-only" id="composer"><p>This is a session of the API. It can be read here; messages go through the API.</p></div>`;
  }
  return html`<form class="composer" id="composer" onSubmit=${(e) => (e.preventDefault(), send())}>
    ${menu.length > 0 && html`<ul class="slash" id="slash" role="listbox" aria-label="Commands">${menu.map(([name, what], i) => html`<li key=${name} id=${"slash-" + i}
      role="option" aria-selected=${i === at ? "true" : "false"} onPointerMove=${() => i !== at && setAt(i)} onPointerDown=${(e) => (e.preventDefault(), run(name))}><code>/${name}</code><span>${what}</span></li>`)}</ul>`}
    <${Uploads} uploads=${uploads} client=${client} />
    <label class="sr" for="message">Message</label>
    <textarea id="message" ref=${box} rows="1" dir="auto" placeholder=${running ? "Say more, it will wait its turn…" : "Ask Iris…"} value=${text} enterkeyhint="send"
      aria-controls=${menu.length ? "slash" : undefined} aria-activedescendant=${menu.length ? "slash-" + at : undefined}
      onInput=${(e) => (setText(e.target.value), setShut(false))} onKeyDown=${keys} onPaste=${paste}></textarea>
    <div class="composer-row">
      <button class="button ghost" type="button" aria-label="Attach files" title="Attach files" onClick=${() => picker.current.click()}><${Icon} name="clip" size=${18} /></button>
      <input class="sr" type="file" multiple tabindex="-1" aria-hidden="true" ref=${picker} onChange=${(e) => (client.attach([...e.target.files]), (e.target.value = ""))} />
      ${agents.length > 0 && html`<select aria-label="Who answers" title="Who answers" value=${agent} onChange=${(e) => client.choose(e.target.value)}>
        <option value="">Iris</option>${agents.map((a) => html`<option key=${a.name} value=${a.name} title=${a.description}>${a.name}</option>`)}</select>`}
      <span class="composer-hint" aria-hidden="true">${uploading ? "Uploading…" : text ? html`<kbd>Enter</kbd> to send` : html`<kbd>/</kbd> for commands`}</span>
      ${running && html`<button class="button stop" type="button" aria-label="Stop" title="Stop (Esc)" onClick=${() => client.command("stop")}><${Icon} name="stop" /> Stop</button>`}
      <button class="button primary send" type="submit" aria-label="Send" title="Send (Enter)" disabled=${!ready}><${Icon} name="send" size=${18} /></button>
    </div>
  </form>`;
}

// lastSaid is what this person said last.
function lastSaid(data) {
  const mine = (m) => m && (!m.from || m.from === "web") && m.text;
  const waiting = data.pending.findLast(mine);
  return waiting?.text ?? data.blocks.findLast((b) => mine(b.message))?.message.text;
}
