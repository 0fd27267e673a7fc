// Tests of page/js/store.js, run by TestReducer with node's own test runner.
import assert from "node:assert/strict";
import { test } from "node:test";
import { addPending, apply, applyAll, busy, emptyThread, fromHistory, openAsks, runningTurn, settleAsk } from "./page/js/store.js";

const at = "2026-01-02T03:04:05Z";
let seq = 0;
const f = (type, more = {}) => ({ type, seq: ++seq, turn: "t1", id: "t1", at, ...more });
const said = (id, turn, text = "hello") => f("message", { id, turn, text, from: "web" });
const start = (id, turn = "t1") => f("tool", { id, turn, toolName: "bash", label: "list", args: { command: "ls" }, phase: "start" });
const end = (id, result = "a", turn = "t1") => f("tool", { id, turn, toolName: "bash", result, durationMs: 5, phase: "end" });
const shape = (t) => t.blocks.map((b) => b.kind + ":" + (b.state ?? "") + ":" + (b.items ?? []).map((i) => i.kind + (i.text ? "=" + i.text : "") + (i.phase ?? "")).join(","));

const whole = () => [
  said("m1", "t1"), f("thinking"), f("status", { text: "looking" }), f("thinking", { text: "hm" }), f("thinking", { text: "m" }),
  f("text", { text: "let ", partial: true }), f("text", { text: "me", partial: true }), f("text", { text: "let me" }),
  start("c1"), end("c1"), f("file", { url: "/files/x/y", filename: "y" }),
  f("text", { text: "the ", partial: true }), f("final", { text: "the answer", usage: { output: 2 } }),
];

test("a turn from its message to its reply", () => {
  const t = applyAll(emptyThread(), whole());
  assert.deepEqual(shape(t), ["turn:done:thinking=hmm,text=let me,toolend,file,text=the answer"]);
  assert.equal(t.blocks[0].usage.output, 2);
  assert.equal(busy(t), false);
});

test("frames that come again change nothing", () => {
  const frames = whole();
  const once = applyAll(emptyThread(), frames);
  assert.equal(applyAll(once, frames), once);
  for (let cut = 0; cut < frames.length; cut++) {
    const t = applyAll(applyAll(emptyThread(), frames.slice(0, cut)), frames);
    assert.deepEqual(shape(t), shape(once), "cut at " + cut);
  }
});

test("states are replaced, never changed", () => {
  const freeze = (o) => (o && typeof o === "object" && !Object.isFrozen(o) && (Object.freeze(o), Object.values(o).forEach(freeze)), o);
  let t = freeze(emptyThread());
  for (const frame of whole()) t = freeze(apply(t, frame));
  assert.equal(t.blocks.length, 1);
});

test("the whole text keeps the key of its pieces", () => {
  const t = applyAll(emptyThread(), [said("m1", "t1"), f("text", { text: "a", partial: true })]);
  const key = t.blocks[0].items[0].key;
  assert.equal(apply(t, f("text", { text: "ab" })).blocks[0].items[0].key, key);
  assert.equal(apply(t, f("final", { text: "ab" })).blocks[0].items[0].key, key);
});

test("an update takes back the pieces", () => {
  const t = applyAll(emptyThread(), [said("m1", "t1"), f("text", { text: "wro", partial: true }), f("update", { text: "" }), f("text", { text: "right", partial: true })]);
  assert.deepEqual(shape(t), ["turn:running:text=right"]);
});

test("a restart in the middle of a turn", () => {
  const t = applyAll(emptyThread(), [said("m1", "t1"), f("thinking"), start("c1"), f("text", { text: "half", partial: true }), f("thinking"), f("text", { text: "whole", partial: true })]);
  assert.deepEqual(shape(t), ["turn:running:toollost,text=whole"]);
  assert.deepEqual(shape(apply(t, end("c1", "interrupted"))), ["turn:running:toolend,text=whole"]);
});

test("a stopped turn says nothing twice", () => {
  const t = applyAll(emptyThread(), [said("m1", "t1"), f("text", { text: "first" }), f("text", { text: "sec", partial: true }), f("final", { text: "first\n\nsec", stopped: true })]);
  assert.deepEqual(shape(t), ["turn:stopped:text=first,text=sec"]);
});

test("a reply that repeats an earlier text is a reply", () => {
  const t = applyAll(emptyThread(), [said("m1", "t1"), f("text", { text: "yes" }), f("final", { text: "yes" })]);
  assert.deepEqual(shape(t), ["turn:done:text=yes,text=yes"]);
});

test("failed, silent and late frames", () => {
  const failed = applyAll(emptyThread(), [said("m1", "t1"), f("error", { message: "overloaded", code: "model" })]);
  assert.deepEqual(failed.blocks[0].error, { message: "overloaded", code: "model" });
  assert.deepEqual(shape(apply(failed, f("text", { text: "late", partial: true }))), shape(failed));
  assert.equal(applyAll(emptyThread(), [said("m1", "t1"), f("delete")]).blocks[0].state, "silent");
});

test("waiting turns keep their place", () => {
  const t = applyAll(emptyThread(), [said("m1", "t1"), said("m2", "t2"), f("thinking"), f("text", { text: "one" }), f("final", { text: "end" })]);
  assert.deepEqual(shape(t), ["turn:done:text=one,text=end", "turn:waiting:"]);
  assert.equal(runningTurn(t), undefined);
  assert.equal(busy(t), true);
});

test("a message that was sent here takes the place of its copy", () => {
  const sent = addPending(emptyThread(), { id: "m1", text: "hello", files: [], at });
  const t = apply(sent, said("m1", "t1"));
  assert.equal(t.pending.length, 0);
  assert.equal(t.blocks[0].key, "m-m1");
  assert.equal(apply(sent, said("other", "t1")).pending.length, 1);
  assert.equal(apply(sent, { type: "ack", id: "m1" }).pending.length, 0);
});

test("a refused message stays, with the reason", () => {
  const sent = addPending(emptyThread(), { id: "m1", text: "hello", files: [], at });
  const t = apply(sent, { type: "error", id: "m1", message: "full" });
  assert.equal(t.pending[0].failed, "full");
  assert.equal(t.flashes.length, 0);
  assert.equal(apply(sent, { type: "error", message: "other" }).flashes[0].text, "other");
});

test("the answer to a command stands below it, whichever comes first", () => {
  const sent = addPending(emptyThread(), { id: "m1", text: "help", files: [], at });
  const note = { type: "thread", id: "m1", text: "all I can do" };
  const message = () => f("message", { id: "m1", turn: undefined, text: "help" });
  for (const frames of [[note, message()], [message(), note]]) {
    const t = applyAll(sent, frames);
    assert.equal(t.blocks[0].message.reply, "all I can do");
    assert.equal(t.pending.length, 0);
  }
});

test("a notice and its echo are one line", () => {
  const notice = f("thread", { turn: undefined, text: "_cleared_" });
  const echo = { type: "thread", text: "_cleared_" };
  for (const frames of [[notice, echo], [echo, { ...notice, seq: ++seq }]]) {
    const t = applyAll(emptyThread(), frames);
    assert.equal(t.blocks.length, 1);
    assert.equal(t.flashes.length, 0);
  }
});

test("questions are open until answered, settled or expired", () => {
  const ask = { id: "q", text: "may I?", command: "rm x", until: "2026-01-02T04:00:00Z" };
  const t = applyAll(emptyThread(), [said("m1", "t1"), f("ask", { ask })]);
  const now = Date.parse(at);
  assert.deepEqual(openAsks(t, now), [ask]);
  assert.deepEqual(openAsks(t, now + 36e5), []);
  assert.deepEqual(openAsks(settleAsk(t, "q"), now), []);
  assert.deepEqual(openAsks(settleAsk(t, "other"), now), [ask]);
  assert.deepEqual(openAsks(apply(t, f("message", { id: "m2", turn: "t2", origin: "approval", answers: "q" })), now), []);
  assert.deepEqual(openAsks(apply(t, f("message", { id: "m2", turn: "t2", origin: "approval", answers: "other" })), now), [ask]);
  // The server did not take the answer.
  assert.deepEqual(openAsks(apply(settleAsk(t, "q"), { type: "error", id: "q", message: "not you" }), now), [ask]);
  // Asked again by another turn, it is one question.
  const again = applyAll(t, [said("m2", "t2"), { ...f("ask", { ask }), turn: "t2" }]);
  assert.deepEqual(openAsks(again, now), [ask]);
  assert.deepEqual(openAsks(settleAsk(again, "q"), now), []);
});

test("a question that is over says how it ended, and is not asked again", () => {
  const ask = { id: "q", text: "which?", options: [{ label: "a" }], until: "2036-01-02T04:00:00Z" };
  const t = applyAll(emptyThread(), [said("m1", "t1"), f("ask", { ask })]);
  const over = apply(t, f("ask", { ask: { ...ask, outcome: "answered", by: "ann", picked: "a" } }));
  assert.deepEqual(openAsks(over, 0), []);
  const items = over.blocks.flatMap((b) => b.items ?? []).filter((i) => i.kind === "ask");
  assert.equal(items.length, 1);
  assert.deepEqual([items[0].settled, items[0].ask.outcome, items[0].ask.by, items[0].ask.picked], [true, "answered", "ann", "a"]);
  // The end of a question that was never shown shows nothing.
  assert.equal(apply(emptyThread(), f("ask", { ask: { id: "x", outcome: "expired" } })).blocks.length, 0);
});

test("the history says which questions wait", () => {
  const ask = (id) => ({ id, text: "may I?", until: "2036-01-02T04:00:00Z" });
  const t = fromHistory({ seq: 9, items: [
    { type: "message", id: "m", turn: "a", at }, { type: "ask", turn: "a", ask: ask("1"), settled: true, at },
    { type: "final", turn: "a", text: "x", at }, { type: "ask", turn: "a", ask: ask("2"), at },
    { type: "ask", turn: "forgotten", ask: ask("3"), at },
  ] });
  assert.deepEqual(openAsks(t, 0).map((a) => a.id), ["2", "3"]);
  assert.ok(!t.blocks.some((b) => b.state === "waiting"));
});

test("a gap is marked and asks for the history", () => {
  const t = apply(emptyThread(), { type: "truncated" });
  assert.equal(t.stale && t.truncated, true);
});

test("the history shows what the frames showed", () => {
  const live = applyAll(emptyThread(), whole());
  const items = [
    { type: "message", seq: 1, turn: "t1", id: "m1", text: "hello", from: "web", at },
    { type: "thinking", seq: 4, turn: "t1", text: "hmm", at },
    { type: "text", seq: 8, turn: "t1", text: "let me", at },
    { type: "tool", seq: 9, turn: "t1", at, event: { id: "c1", toolName: "bash", label: "list", args: { command: "ls" }, result: "a", durationMs: 5, phase: "end" } },
    { type: "file", seq: 11, turn: "t1", url: "/files/x/y", filename: "y", at },
    { type: "final", seq: 13, turn: "t1", text: "the answer", at, began: at, usage: { output: 2 } },
    { type: "notice", seq: 14, text: "cleared", at },
    { type: "message", seq: 15, id: "m9", turn: "t9", text: "now", at },
    { type: "text", seq: 17, turn: "t9", text: "so far", partial: true, at },
  ];
  const t = fromHistory({ seq: 17, running: "t9", began: at, items }, [{ id: "m9" }, { id: "m10" }]);
  assert.deepEqual(shape(t), [...shape(live), "notice::", "turn:running:text=so far"]);
  assert.deepEqual(t.pending.map((m) => m.id), ["m10"]);
  assert.equal(t.seq, 17);
  const next = apply(t, { type: "text", seq: 18, turn: "t9", text: " and on", partial: true });
  assert.equal(next.blocks.at(-1).items[0].text, "so far and on");
});

test("a silent final and a failed turn of the history", () => {
  const t = fromHistory({ seq: 9, items: [
    { type: "message", turn: "a", id: "1", at }, { type: "final", turn: "a", silent: true, text: "x", at },
    { type: "message", turn: "b", id: "2", at }, { type: "error", turn: "b", error: "broken", code: "failed", at },
  ] });
  assert.deepEqual(shape(t), ["turn:silent:", "turn:failed:"]);
  assert.equal(t.blocks[1].error.message, "broken");
});

test("keys are unique", () => {
  const items = Array.from({ length: 150 }, (_, i) => ({ type: i % 2 ? "notice" : "message", id: i % 2 ? "" : "m" + i, text: "x", at }));
  const t = fromHistory({ seq: 0, items });
  assert.equal(new Set(t.blocks.map((b) => b.key)).size, 150);
});

test("an approval settles a question of long ago", () => {
  const ask = { id: "q", text: "may I?", until: "2036-01-02T04:00:00Z" };
  const items = [{ type: "message", id: "a", turn: "a", at }, { type: "ask", turn: "a", ask, at }, { type: "final", turn: "a", text: "x", at }];
  for (let i = 0; i < 200; i++) items.push({ type: "notice", text: "n" + i, at });
  assert.equal(openAsks(fromHistory({ seq: 1, items }), 0).length, 1);
  items.push({ type: "message", id: "b", turn: "b", origin: "approval", answers: "q", at });
  assert.equal(openAsks(fromHistory({ seq: 1, items }), 0).length, 0);
});

test("a thousand turns are read quickly", () => {
  const items = [];
  for (let i = 0; i < 1000; i++) {
    items.push({ type: "message", turn: "t" + i, id: "m" + i, text: "q", at });
    for (let k = 0; k < 5; k++) items.push({ type: "tool", turn: "t" + i, event: { id: "c" + k, toolName: "bash", phase: "end", result: "x" }, at });
    items.push({ type: "final", turn: "t" + i, text: "a", at });
  }
  const begun = performance.now();
  assert.equal(fromHistory({ seq: 1, items }).blocks.length, 1000);
  // A busy machine may take its time.
  assert.ok(performance.now() - begun < 10_000, "took " + (performance.now() - begun) + " ms");
});
