// The conversation. Only a window of it is drawn: it begins some blocks before
// the end and grows upwards as somebody scrolls back.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { Icon, Mark, Spinner } from "./icons.js";
import { Block, Pending } from "./turn.js";

const step = 40; // blocks that are added at the top at a time
const most = 120; // blocks that are drawn while the end is looked at
const near = 90; // pixels from the end that count as the end

export function Thread({ client, data, loading, trouble, thread }) {
  const scroller = useRef();
  const inner = useRef();
  const more = useRef();
  const end = useRef(true); // whether the end is looked at
  const height = useRef(0); // of the content before blocks were added above
  const [from, setFrom] = useState(Infinity);
  const [away, setAway] = useState(false);
  const total = data.blocks.length;
  const said = data.pending.length;
  const empty = !loading && total === 0 && said === 0;
  const blank = useRef(empty);
  blank.current = empty;
  const start = Math.min(from, Math.max(0, total - step));

  // The window follows the end and lets go of what is far above.
  useEffect(() => {
    if (from === Infinity && total > 0) setFrom(Math.max(0, total - step));
    else if (end.current && total - from > most) setFrom(total - step);
  }, [total]);

  const earlier = () => {
    if (start === 0) return;
    height.current = scroller.current.scrollHeight;
    setFrom(Math.max(0, start - step));
  };

  useLayoutEffect(() => {
    const s = scroller.current;
    if (height.current) s.scrollTop += s.scrollHeight - height.current;
    height.current = 0;
  }, [start]);

  const toEnd = (smooth) => {
    const s = scroller.current;
    s?.scrollTo({ top: s.scrollHeight, behavior: smooth ? "smooth" : "instant" });
  };

  // What grows (text, a picture, an opened card) keeps the end in view when the
  // end was in view.
  useEffect(() => {
    const watch = new ResizeObserver(() => end.current && !blank.current && toEnd());
    watch.observe(inner.current);
    watch.observe(scroller.current);
    return () => watch.disconnect();
  }, []);

  useLayoutEffect(() => {
    if (end.current && !empty) toEnd();
  }, [data, loading]);

  // Saying something goes to the end.
  const before = useRef(0);
  useLayoutEffect(() => {
    if (said > before.current) {
      end.current = true;
      toEnd();
    }
    before.current = said;
  }, [said]);

  useEffect(() => {
    if (!more.current) return;
    const watch = new IntersectionObserver((seen) => seen.some((e) => e.isIntersecting) && !end.current && earlier(), { root: scroller.current, rootMargin: "300px" });
    watch.observe(more.current);
    return () => watch.disconnect();
  }, [start]);

  // A view of another shape (a turned phone, its keyboard, a dragged window) is
  // nobody scrolling.
  const shape = useRef("");
  const onScroll = () => {
    const s = scroller.current;
    const now = s.clientWidth + "x" + s.clientHeight;
    if (now !== shape.current) {
      const known = shape.current !== "";
      shape.current = now;
      if (known && end.current && !blank.current) return toEnd();
    }
    end.current = s.scrollHeight - s.scrollTop - s.clientHeight < near;
    if (away === end.current) setAway(!end.current);
  };

  return html`<div class="scroll" ref=${scroller} onScroll=${onScroll} tabindex="-1">
    <div class=${"thread" + (empty ? " empty" : "")} ref=${inner} role="log" aria-live="polite" aria-relevant="additions" aria-label="Conversation" aria-busy=${loading ? "true" : "false"}>
      ${loading && html`<div class="loading" role="status"><${Spinner} /> ${trouble || "Opening the thread…"}</div>`}
      ${!loading && trouble && html`<p class="notice">${trouble}</p>`}
      ${empty && !trouble && html`<${Empty} client=${client} />`}
      ${start > 0 && html`<div class="earlier" ref=${more}><button class="button small" type="button" onClick=${earlier}>Show earlier messages (${start})</button></div>`}
      ${start === 0 && data.truncated && html`<p class="notice">Some older events are no longer kept.</p>`}
      ${data.blocks.slice(start).map((b) => html`<${Block} key=${b.key} block=${b} thread=${thread} />`)}
      ${data.pending.map((m) => html`<${Pending} key=${"m-" + m.id} message=${m} thread=${thread} client=${client} />`)}
    </div>
    ${away && html`<button class="latest" type="button" onClick=${() => toEnd(true)}><${Icon} name="down" size=${15} /> Latest</button>`}
  </div>`;
}

const prompts = [
  ["search", "What is in this folder and how big is it?"],
  ["terminal", "run df -h"],
  ["wrench", "How much memory is free?"],
  ["spark", "What can you do?"],
];

function Empty({ client }) {
  return html`<div class="welcome">
    <${Mark} size=${56} />
    <h2>What shall we do?</h2>
    <p>Iris runs commands on this machine, reads and writes files, and shows every step. Ask in plain words.</p>
    <div class="prompts">${prompts.map(([icon, text]) => html`<button key=${text} type="button" class="prompt" onClick=${() => client.send(text)}>
      <${Icon} name=${icon} size=${17} /><span>${text}</span></button>`)}</div>
    <p class="hint">Files can be dropped or pasted anywhere. Press <kbd>?</kbd> for keys.</p>
  </div>`;
}
