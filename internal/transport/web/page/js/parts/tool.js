// A tool call: what was called, how long it takes or took, and what came out.
import { useState } from "preact/hooks";
import { duration, plural } from "../format.js";
import { html, memo } from "../html.js";
import { Icon, Spinner, toolIcon } from "./icons.js";
import { useNow } from "./status.js";

const short = 8; // lines of output that are shown at once

export const Tool = memo(function Tool({ call }) {
  const [open, setOpen] = useState(null); // null: as its state wants it
  const [whole, setWhole] = useState(false);
  const running = call.phase === "start";
  const failed = call.isError || call.phase === "lost";
  const { command, detail } = describe(call.args);
  const [title, kind] = names(call);
  const result = call.phase === "lost" ? "ended without a result" : (call.result ?? "").replace(/\s+$/, "");
  const lines = result ? result.split("\n") : [];
  const body = Boolean(command || detail || lines.length);
  const shown = body && (open ?? true);
  const cut = !whole && lines.length > short + 2;
  const id = "tool-" + call.key + "-" + (call.id ?? "");
  return html`<section class=${"tool" + (running ? " running" : failed ? " failed" : " ok")} aria-label=${"Tool " + call.name}>
    <button class="tool-head" type="button" disabled=${!body} aria-expanded=${shown ? "true" : "false"} aria-controls=${id} onClick=${() => setOpen(!shown)}>
      <span class="tool-icon"><${Icon} name=${toolIcon(call.name)} size=${15} /></span>
      <span class="tool-label" dir="auto">${title}</span>
      <span class="tool-name">${kind}</span>
      <${State} call=${call} running=${running} failed=${failed} />
      ${body && html`<span class="tool-chevron"><${Icon} name="chevron" size=${14} /></span>`}
    </button>
    ${shown && html`<div class="tool-body" id=${id}>
      ${command && html`<pre class="tool-command" tabindex="0"><code>${command}</code></pre>`}
      ${detail && html`<pre class="tool-args" tabindex="0"><code>${detail}</code></pre>`}
      ${lines.length > 0 && html`<div class="tool-output">
        <pre tabindex="0"><code>${cut ? lines.slice(0, short).join("\n") : result}</code></pre>
        <button class="copy" type="button" data-copy=${result}>Copy</button>
      </div>`}
      ${cut && html`<button class="tool-more" type="button" onClick=${() => setWhole(true)}>Show ${plural(lines.length - short, "more line")}</button>`}
      ${!running && !lines.length && html`<p class="tool-none">No output</p>`}
    </div>`}
  </section>`;
});

function State({ call, running, failed }) {
  if (running) return html`<span class="tool-state"><${Elapsed} since=${call.seen ?? Date.parse(call.at)} /><${Spinner} /><span class="sr">running</span></span>`;
  return html`<span class="tool-state"><span>${call.durationMs ? duration(call.durationMs) : ""}</span>
    <${Icon} name=${failed ? "cross" : "check"} size=${15} /><span class="sr">${failed ? "failed" : "done"}</span></span>`;
}

function Elapsed({ since }) {
  const s = Math.floor((useNow(1000) - since) / 1000);
  return s >= 1 ? html`<span aria-hidden="true">${duration(s * 1000)}</span>` : null;
}

// names are what a card is headed with: what the model calls the call, and the
// tool. A tool of an MCP server has both names in one.
function names({ name = "", label }) {
  const [, server, tool] = /^mcp__(.+?)__(.+)$/.exec(name) ?? [];
  if (label && label !== name) return [label, server ? server + " " + tool : name];
  return server ? [tool, server] : [name, ""];
}

// describe shows a command as one, and other arguments by name. The label that
// the model gave stands in the head already.
function describe(args) {
  if (args == null || typeof args !== "object") return {};
  const { command, label, ...rest } = args;
  const parts = Object.entries(rest).map(([name, value]) => name + ": " + (typeof value === "string" ? value : JSON.stringify(value)));
  return { command: typeof command === "string" ? command : "", detail: clip(parts.join("\n")) };
}

const clip = (s) => (s.length > 4000 ? s.slice(0, 4000) + "\n…" : s);
