// What a thread shows, as a pure function of the frames of its socket. Nothing
// here touches the page, so it runs under node's test runner as it is.
//
// A thread is a list of blocks. A block is a turn (what somebody said and all
// that came of it), a message that started no turn, or a notice. Blocks are
// replaced and never changed, so a block that is the same object looks the same.

// emptyThread is a thread of which nothing is known.
export function emptyThread() {
  return { seq: 0, blocks: [], base: 0, pending: [], flashes: [], truncated: false, stale: false };
}

// settled is more turns than can be open at once.
const settled = 32;

// fromHistory is the thread after GET /page/threads/{thread}/history. pending is
// what was sent from this browser and may not have arrived.
export function fromHistory(history, pending = []) {
  let t = { ...emptyThread(), pending };
  // A list of blocks is copied with every change, so the old ones, to which
  // nothing more can happen than an answer, are put aside.
  let old = [];
  for (const item of history.items) {
    t = apply(t, toFrame(item));
    if (item.answers) old = settleAsk({ blocks: old }, item.answers).blocks;
    if (t.blocks.length < 2 * settled) continue;
    old.push(...t.blocks.slice(0, settled));
    t = { ...t, blocks: t.blocks.slice(settled), base: old.length };
  }
  t = { ...t, blocks: [...old, ...t.blocks], base: 0, seq: history.seq };
  if (history.running) t = onTurn(t, { turn: history.running }, (b) => (ended(b) ? b : { ...b, state: "running", began: history.began }));
  return t;
}

// toFrame makes the frame that would have led to an item of the history.
function toFrame(item) {
  const f = { ...item, seq: 0, kept: true };
  switch (item.type) {
    case "notice":
      return { ...f, type: "thread" };
    case "tool":
      return { ...f, ...item.event, event: undefined };
    case "error":
      return { ...f, message: item.error };
    case "final":
      return item.silent ? { ...f, type: "delete" } : f;
  }
  return f;
}

// applyAll applies frames in order.
export function applyAll(thread, frames) {
  return frames.reduce(apply, thread);
}

// apply returns the thread after a frame. A frame that was applied before
// changes nothing: its seq is not above that of the thread.
export function apply(t, f) {
  if (f.seq) {
    if (f.seq <= t.seq) return t;
    t = { ...t, seq: f.seq };
  } else if (!f.kept) {
    return aside(t, f);
  }
  const step = steps[f.type];
  return step ? step(t, f) : t;
}

// aside takes the frames that answer this socket alone.
function aside(t, f) {
  switch (f.type) {
    case "truncated":
      return { ...t, truncated: true, stale: true };
    case "ack":
      return { ...t, pending: t.pending.filter((m) => m.id !== f.id) };
    case "thread":
      return f.id ? reply(t, f) : repeats(t, f.text) ? t : flash(t, "info", f.text);
    case "error":
      if (f.id && t.pending.some((m) => m.id === f.id)) return failPending(t, f.id, f.message);
      if (f.id) t = settleAsk(t, f.id, false); // the answer was not taken
      return flash(t, "error", f.message);
  }
  return t;
}

// reply puts the answer to a command that was a message below that message.
function reply(t, f) {
  if (t.pending.some((m) => m.id === f.id)) {
    return { ...t, pending: t.pending.map((m) => (m.id === f.id ? { ...m, reply: f.text } : m)) };
  }
  const i = t.blocks.findLastIndex((b) => b.message?.id === f.id);
  if (i < 0 || repeats(t, f.text)) return t;
  const b = t.blocks[i];
  return { ...t, blocks: t.blocks.with(i, { ...b, message: { ...b.message, reply: f.text } }) };
}

// repeats reports whether a line is the notice that stands last: the answer to a
// command says what its notice says.
function repeats(t, text) {
  const last = t.blocks.at(-1);
  return last?.kind === "notice" && last.text === text;
}

const steps = {
  message: said,
  thread: (t, f) => {
    const flashes = t.flashes.filter((x) => x.text !== f.text);
    return push({ ...t, flashes }, { kind: "notice", key: keyOf("n", f, t), text: f.text, at: f.at });
  },
  thinking: (t, f) =>
    onTurn(t, f, (b) => {
      if (!f.text) return { ...begin(b, f), items: settle(b.items) };
      const last = b.items.at(-1);
      if (last?.kind === "thinking") return working(b, { items: replaceLast(b.items, { ...last, text: last.text + f.text }) });
      return add(b, { kind: "thinking", text: f.text });
    }),
  status: (t, f) => onTurn(t, f, (b) => working(b, { status: f.text })),
  tool: (t, f) => onTurn(t, f, (b) => tool(b, f)),
  text: (t, f) => onTurn(t, f, (b) => text(b, f)),
  update: (t, f) => onTurn(t, f, (b) => working(b, { items: dropGrowing(b.items) })),
  file: (t, f) => onTurn(t, f, (b) => add(b, { kind: "file", url: f.url, name: f.filename, title: f.title })),
  ask: (t, f) => (f.ask?.outcome ? closeAsk(t, f.ask) : onTurn(t, f, (b) => asked(b, f))),
  final: (t, f) => onTurn(t, f, (b) => end(b, f, f.stopped ? "stopped" : "done")),
  delete: (t, f) => onTurn(t, f, (b) => end(b, { ...f, text: "" }, "silent")),
  error: (t, f) => onTurn(t, f, (b) => end(b, f, "failed")),
};

// keyOf names a block for the page. seq is unique; items of the history, which
// have none here, are counted.
function keyOf(kind, f, t) {
  return kind + (f.seq || "h" + (t.base + t.blocks.length));
}

function push(t, block) {
  return { ...t, blocks: [...t.blocks, block] };
}

// said puts a message where it belongs. One that this browser sent takes the
// place of its copy among the pending ones.
function said(t, f) {
  const sent = t.pending.find((m) => m.id === f.id);
  const pending = sent ? t.pending.filter((m) => m !== sent) : t.pending;
  if (f.answers) t = settleAsk(t, f.answers);
  t = pending === t.pending ? t : { ...t, pending };
  const message = { id: f.id, from: f.from, text: f.text ?? "", files: f.files ?? [], at: f.at, reply: sent?.reply };
  const key = f.id ? "m-" + f.id : keyOf("m", f, t);
  if (!f.turn) return push(t, { kind: "message", key, message, at: f.at });
  const known = t.blocks.findLastIndex((b) => b.turn === f.turn);
  if (known >= 0) return onTurn(t, f, (b) => ({ ...b, message: b.message ?? message }));
  return push(t, { ...newTurn(f, key), message, runner: f.runner, origin: f.origin });
}

function newTurn(f, key) {
  return { kind: "turn", key, turn: f.turn, message: null, items: [], state: "waiting", status: "", at: f.at };
}

// onTurn replaces the block of a turn. A turn whose message is not kept begins
// with what is.
function onTurn(t, f, change) {
  const i = t.blocks.findLastIndex((b) => b.kind === "turn" && b.turn === f.turn && f.turn);
  if (i < 0) return push(t, change(newTurn(f, "t-" + (f.turn || keyOf("x", f, t)))));
  const block = change(t.blocks[i]);
  return block === t.blocks[i] ? t : { ...t, blocks: t.blocks.with(i, block) };
}

export const ended = (b) => b.state === "done" || b.state === "stopped" || b.state === "failed" || b.state === "silent";

function begin(b, f) {
  return ended(b) ? b : { ...b, state: "running", status: "", began: b.began ?? f.at };
}

// working changes a turn that is not over.
function working(b, changes) {
  return ended(b) ? b : { ...b, state: "running", ...changes };
}

// add appends an item; its key is its place, which no other item takes.
function add(b, item, changes = {}) {
  const key = (b.made ?? 0) + 1;
  return working(b, { ...changes, made: key, items: [...b.items, { ...item, key }] });
}

function replaceLast(items, item) {
  return [...items.slice(0, -1), item];
}

const growing = (i) => i.kind === "text" && i.partial;

function dropGrowing(items) {
  return items.some(growing) ? items.filter((i) => !growing(i)) : items;
}

// settle ends what an earlier attempt left open: the process was restarted.
function settle(items) {
  return dropGrowing(items).map((i) => (i.kind === "tool" && i.phase === "start" ? { ...i, phase: "lost" } : i));
}

function text(b, f) {
  const open = b.items.findLast(growing);
  if (f.partial) {
    if (!open) return add(b, { kind: "text", text: f.text, partial: true }, { status: "" });
    return working(b, { status: "", items: b.items.map((i) => (i === open ? { ...i, text: i.text + f.text } : i)) });
  }
  if (!f.text) return working(b, { items: dropGrowing(b.items) });
  // The whole text keeps the key of its pieces: the page replaces nothing.
  if (open) return working(b, { items: [...dropGrowing(b.items), { kind: "text", text: f.text, key: open.key }] });
  return add(b, { kind: "text", text: f.text });
}

function tool(b, f) {
  const i = b.items.findLastIndex((x) => x.kind === "tool" && x.id === f.id);
  const call = { kind: "tool", id: f.id, name: f.toolName, label: f.label, args: f.args, phase: f.phase, at: f.at, seen: f.received };
  const done = { result: f.result, isError: f.isError, durationMs: f.durationMs };
  if (f.phase === "end" && i >= 0) {
    const old = b.items[i];
    const whole = { ...old, ...done, phase: "end", label: f.label || old.label, args: f.args ?? old.args };
    return working(b, { items: b.items.with(i, whole) });
  }
  return add(b, f.phase === "end" ? { ...call, ...done } : call, { status: "" });
}

// end closes a turn. The text of one that did not get to its end repeats what it
// had said before; that is not shown twice.
function end(b, f, state) {
  if (ended(b)) return b;
  const open = b.items.findLast(growing);
  let items = settle(b.items);
  let rest = f.text ?? "";
  if (state !== "done") rest = unsaid(items, rest);
  if (rest) {
    const key = open?.key ?? (b.made ?? 0) + 1;
    items = [...items, { kind: "text", text: rest, key, final: true }];
  }
  return {
    ...b, items, state, status: "", began: b.began ?? f.began, made: (b.made ?? 0) + 1, usage: f.usage, finished: f.at,
    error: state === "failed" ? { message: f.message || "The turn failed.", code: f.code } : undefined,
  };
}

function unsaid(items, rest) {
  for (const i of items) {
    const said = i.kind === "text" ? i.text.trim() : "";
    if (said && rest.trimStart().startsWith(said)) rest = rest.trimStart().slice(said.length).trimStart();
  }
  return rest;
}

// asked adds a question. One that is asked about a turn that has ended comes from
// the history, whose records may be gone.
function asked(b, f) {
  const key = (b.made ?? 0) + 1;
  const state = f.kept && b.state === "waiting" ? "done" : b.state;
  return { ...b, state, made: key, items: [...b.items, { kind: "ask", ask: f.ask, settled: f.settled, key }] };
}

// closeAsk says how a question ended, and through whom.
function closeAsk(t, { id, outcome, by, picked }) {
  const blocks = t.blocks.map((b) =>
    b.items?.some((i) => i.kind === "ask" && i.ask.id === id)
      ? { ...b, items: b.items.map((i) => (i.kind === "ask" && i.ask.id === id ? { ...i, settled: true, ask: { ...i.ask, outcome, by, picked } } : i)) }
      : b);
  return { ...t, blocks };
}

// settleAsk marks a question as answered, or takes that back.
export function settleAsk(t, id, settled = true) {
  const hit = (i) => i.kind === "ask" && i.ask.id === id && !i.settled === settled;
  if (!t.blocks.some((b) => b.items?.some(hit))) return t;
  const blocks = t.blocks.map((b) =>
    b.items?.some(hit) ? { ...b, items: b.items.map((i) => (hit(i) ? { ...i, settled } : i)) } : b);
  return { ...t, blocks };
}

// openAsks are the questions that wait for an answer at a moment. A question that
// several turns have asked is one.
export function openAsks(t, now) {
  const open = new Map();
  for (const b of t.blocks) {
    for (const i of b.items ?? []) {
      if (i.kind !== "ask") continue;
      if (!i.settled && Date.parse(i.ask.until) > now) open.set(i.ask.id, i.ask);
      else open.delete(i.ask.id);
    }
  }
  return [...open.values()];
}

// addPending shows a message before the server has it.
export function addPending(t, message) {
  return { ...t, pending: [...t.pending, message] };
}

// failPending marks a pending message as refused; error says why.
export function failPending(t, id, error) {
  return { ...t, pending: t.pending.map((m) => (m.id === id ? { ...m, failed: error } : m)) };
}

// retryPending makes a refused message wait again.
export function retryPending(t, id) {
  return { ...t, pending: t.pending.map((m) => (m.id === id ? { ...m, failed: undefined } : m)) };
}

export function dropPending(t, id) {
  return { ...t, pending: t.pending.filter((m) => m.id !== id) };
}

let flashes = 0;

// flash shows a line that is not part of the conversation.
export function flash(t, tone, text) {
  const others = t.flashes.filter((x) => x.text !== text);
  return { ...t, flashes: [...others.slice(-2), { key: "f" + ++flashes, tone, text }] };
}

export function dropFlash(t, key) {
  return { ...t, flashes: t.flashes.filter((x) => x.key !== key) };
}

// runningTurn is the block that is worked on, if any.
export function runningTurn(t) {
  return t.blocks.findLast((b) => b.kind === "turn" && b.state === "running");
}

// busy reports whether something runs or waits.
export function busy(t) {
  return t.blocks.some((b) => b.kind === "turn" && !ended(b));
}
