// A turn: what somebody said, and what came of it in the order it came.
import { useEffect, useRef, useState } from "preact/hooks";
import { clock, count, duration, money, plural } from "../format.js";
import { html, memo } from "../html.js";
import { growing, line, markdown } from "../markdown.js";
import { ended } from "../store.js";
import { Attached, FileOut } from "./files.js";
import { Icon, Spinner } from "./icons.js";
import { useNow } from "./status.js";
import { Tool } from "./tool.js";

export const Block = memo(function Block({ block, thread }) {
  switch (block.kind) {
    case "notice":
      return html`<p class="notice"><span dangerouslySetInnerHTML=${{ __html: line(plain(block.text)) }}></span></p>`;
    case "message":
      return html`<article class="block"><${Said} message=${block.message} thread=${thread} /></article>`;
  }
  return html`<${Turn} block=${block} thread=${thread} />`;
});

// plain takes the emphasis off a line that is all emphasis: notices are styled
// here.
const plain = (text = "") => text.replace(/^_([\s\S]*)_$/, "$1");

function Turn({ block, thread }) {
  const over = ended(block);
  return html`<article class=${"block turn " + block.state} data-turn=${block.turn} aria-busy=${over ? "false" : "true"}>
    ${block.message && html`<${Said} message=${block.message} thread=${thread} waiting=${block.state === "waiting"} />`}
    <div class="answer">
      ${block.runner && block.runner !== "native" && html`<span class="answer-from" dir="auto">${block.runner}</span>`}
      ${block.items.map((i) => html`<${Item} key=${i.key} item=${i} over=${over} last=${i === block.items.at(-1)} />`)}
      ${block.state === "running" && html`<${Working} block=${block} />`}
      ${block.error && html`<${Failure} error=${block.error} />`}
      ${over && block.state !== "silent" && html`<${Foot} block=${block} />`}
    </div>
  </article>`;
}

const Item = memo(function Item({ item, over, last }) {
  switch (item.kind) {
    case "text":
      return item.partial ? html`<${Growing} text=${item.text} />` : html`<${Text} text=${item.text} />`;
    case "thinking":
      return html`<${Thought} text=${item.text} live=${last && !over} />`;
    case "tool":
      return html`<${Tool} call=${item} />`;
    case "file":
      return html`<${FileOut} url=${item.url} name=${item.name} title=${item.title} />`;
    case "ask":
      return html`<div class=${"asked" + (item.settled ? " settled" : "")}><${Icon} name="shield" /><span>${item.ask.options ? "Asked" : "Asked for permission"}${item.ask.command ? html`: <code>${item.ask.command}</code>` : html`: ${item.ask.text}`}${item.ask.outcome && html` <em>${ending(item.ask)}</em>`}</span></div>`;
  }
  return null;
});

// endings are how questions end.
const endings = { approved: "allowed", declined: "declined", answered: "answered", expired: "nobody answered in time", withdrawn: "withdrawn" };

function ending({ outcome, by, picked }) {
  return "— " + (endings[outcome] ?? outcome) + (by ? " by " + by : "") + (picked ? ": " + picked : "");
}

const Text = memo(({ text }) => html`<div class="text" dir="auto" dangerouslySetInnerHTML=${{ __html: markdown(text) }}></div>`);

// Growing draws a text while it is written. A long one takes longer to draw and
// is drawn less often, so that the page stays quick.
function Growing({ text }) {
  const drawn = useRef({ at: -Infinity, cost: 0, html: "" });
  const [, again] = useState(0);
  const d = drawn.current;
  const begun = performance.now();
  const left = d.at + d.cost * 6 - begun;
  if (left <= 0) {
    d.html = growing(text);
    d.at = performance.now();
    d.cost = d.at - begun;
  }
  useEffect(() => {
    if (left <= 0) return;
    const t = setTimeout(() => again((n) => n + 1), left);
    return () => clearTimeout(t);
  }, [text, left <= 0]);
  return html`<div class="text growing" dir="auto" dangerouslySetInnerHTML=${{ __html: d.html }}></div>`;
}

function Thought({ text, live }) {
  return html`<details class="thought"><summary>${live ? html`<${Spinner} /> Thinking…` : html`<${Icon} name="chevron" size=${14} /> Thoughts`}</summary><div class="thought-text" dir="auto">${text}</div></details>`;
}

// Said is a bubble.
function Said({ message, thread, waiting, children }) {
  const other = message.from && message.from !== "web";
  return html`<div class="said">
    ${other && html`<span class="said-from" dir="auto">${message.from}</span>`}
    ${message.files.length > 0 && html`<div class="said-files">${message.files.map((f) => html`<${Attached} key=${f.local} file=${f} thread=${thread} />`)}</div>`}
    ${message.text && html`<div class="bubble" dir="auto" title=${clock(message.at)}>${message.text}</div>`}
    ${waiting && html`<span class="said-note"><${Icon} name="clock" size=${13} /> Waiting for its turn</span>`}
    ${message.reply && html`<p class="said-reply" role="status" dangerouslySetInnerHTML=${{ __html: line(plain(message.reply)) }}></p>`}
    ${children}
  </div>`;
}

// Pending is a message that the server has not confirmed.
export const Pending = memo(function Pending({ message, thread, client }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const t = setTimeout(() => setLate(true), 600);
    return () => clearTimeout(t);
  }, []);
  return html`<article class="block"><${Said} message=${message} thread=${thread}>
    ${message.failed ? html`<span class="said-note failed" role="alert"><${Icon} name="warn" size=${13} /> ${message.failed}
        <button class="link" type="button" onClick=${() => client.retry(message.id)}>Send again</button>
        <button class="link" type="button" onClick=${() => client.discard(message.id)}>Discard</button></span>`
      : late && html`<span class="said-note"><${Spinner} /> Sending…</span>`}
  <//></article>`;
});

// Working is the line of a turn that runs.
function Working({ block }) {
  const now = useNow(1000);
  const last = block.items.at(-1);
  const tool = last?.kind === "tool" && last.phase === "start";
  const s = Math.floor((now - Date.parse(block.began ?? block.at)) / 1000);
  const asked = block.items.some((i) => i.kind === "ask" && !i.settled);
  const what = asked ? "Waiting for your answer" : block.status || (tool ? "Running" : last?.kind === "text" && last.partial ? "Writing" : "Thinking");
  return html`<div class="working" role="status"><span class="pulse" aria-hidden="true"><i></i><i></i><i></i></span>
    <span class="working-text" dir="auto">${what.replace(/(\.{3}|…)$/, "")}…</span>${s >= 3 && html`<span class="working-time" aria-hidden="true">${duration(s * 1000)}</span>`}</div>`;
}

const reasons = {
  model: "The model answered with an error.", timeout: "The model did not answer in time.", budget: "A limit was reached.",
  interrupted: "Iris was restarted.", idle_timeout: "Nothing happened for too long.", max_duration: "It took too long.",
};

function Failure({ error }) {
  return html`<div class="failure" role="alert"><${Icon} name="warn" size=${18} /><div><strong>${reasons[error.code] ?? "This did not work."}</strong><p dir="auto">${error.message}</p></div></div>`;
}

// Foot is what is known of a turn that is over.
function Foot({ block }) {
  const u = block.usage;
  const reply = block.items.filter((i) => i.kind === "text").map((i) => i.text).join("\n\n");
  const took = Date.parse(block.finished) - Date.parse(block.began ?? block.at);
  const parts = [
    block.finished && clock(block.finished),
    took > 0 && took < 864e5 && duration(took),
    u?.output > 0 && plural(count((u.input ?? 0) + (u.cacheRead ?? 0) + (u.cacheWrite ?? 0) + u.output), "token", "tokens"),
    u?.cost > 0 && money(u.cost),
  ].filter(Boolean);
  return html`<div class="turn-foot">
    ${block.state === "stopped" && html`<span class="stopped"><${Icon} name="stop" size=${12} /> Stopped</span>`}
    <span>${parts.join(" · ")}</span>
    ${reply && html`<button class="copy-reply" type="button" data-copy=${reply} aria-label="Copy the reply" title="Copy the reply"><${Icon} name="copy" size=${14} /></button>`}
  </div>`;
}
