// Tests of page/js/planned.js and page/js/fleet.js, run by TestPageScripts with
// node's own test runner.
import assert from "node:assert/strict";
import { test } from "node:test";
import { card, order } from "./page/js/fleet.js";
import { eventOf, inWords, ownClock, place, rows, soon, until } from "./page/js/planned.js";

const now = Date.parse("2027-03-26T11:00:00Z"); // a Friday
const zone = "Europe/Berlin";
const periodic = (more = {}) => ({
  name: "a.json", file: "events/a.json", next: "2027-03-27T08:00:00Z",
  upcoming: ["2027-03-27T08:00:00Z", "2027-03-28T07:00:00Z", "2027-03-29T07:00:00Z"],
  event: { type: "periodic", channelId: "WEBUI-t1", text: "look", schedule: "0 9 * * *", timezone: "Europe/Berlin" }, ...more,
});
const minute = (r) => r.when.replace(/[\u202f\u00a0]/g, " ");

test("a time is told by the reader's clock, over a change of the clocks", () => {
  const [r] = rows([periodic()], { t1: "Tickets" }, now, zone);
  assert.match(minute(r), /^Tomorrow, 0?9:00/);
  assert.equal(r.left, "in 21 h");
  assert.equal(r.own, "", "the event's clock is the reader's");
  assert.equal(r.then.length, 2);
  for (const t of r.then) assert.match(t, /0?9:00/, "the clocks go forward between them");
  assert.deepEqual(r.where, { label: "Tickets", href: "#t1" });
  assert.match(minute(rows([periodic()], {}, now, "America/New_York")[0]), /^Tomorrow, 0?4:00/);
});

test("the event's own clock is shown when it is another", () => {
  const e = periodic().event;
  const next = new Date("2027-03-27T08:00:00Z");
  assert.match(ownClock(e, next, "America/New_York"), /^0?9:00.* in Europe\/Berlin$/);
  assert.match(ownClock(e, next, "Pacific/Honolulu"), /^Sat 0?9:00/, "the day is named when it is another");
  assert.equal(ownClock(e, next, "Europe/Madrid"), "", "another name of the same clock");
  const once = (at) => ({ type: "one-shot", at });
  assert.match(ownClock(once("2027-03-27T10:00:00+02:00"), next, zone), /10:00.* in UTC\+02:00$/);
  assert.match(ownClock(once("2027-03-27T08:00:00Z"), next, zone), /8:00.* in UTC$/);
  assert.equal(ownClock(once("2027-03-27T09:00:00+01:00"), next, zone), "");
  assert.equal(ownClock({ type: "periodic", timezone: "Mars/Olympus" }, next, zone), "", "an unknown zone is no error");
});

test("what needs somebody comes first, then what is due next, then what rests", () => {
  const all = [
    periodic({ file: "events/late.json", next: "2027-04-01T08:00:00Z" }),
    { name: "o", file: "events/over.json", upcoming: [], event: { type: "one-shot", channelId: "C1", text: "x", at: "2020-01-01T00:00:00Z" } },
    periodic({ file: "events/paused.json", next: undefined, upcoming: [], event: { ...periodic().event, paused: true } }),
    periodic({ file: "events/soon.json" }),
    { name: "b", file: "events/broken.json", upcoming: [], problem: "text is required", event: { type: "", channelId: "", text: "" } },
  ];
  const shown = rows(all, {}, now, zone);
  assert.deepEqual(shown.map((r) => r.file.slice(7, -5) + ":" + r.state), ["broken:broken", "soon:due", "late:due", "paused:paused", "over:over"]);
  assert.equal(shown[0].problem, "text is required");
});

test("an immediate event has no clock", () => {
  const [r] = rows([{ name: "i", file: "events/i.json", next: "2027-03-26T11:00:00Z", upcoming: ["2027-03-26T11:00:00Z"], event: { type: "immediate", channelId: "C1", text: "x" } }], {}, now, zone);
  assert.deepEqual([r.when, r.left, r.own, r.rule], ["As soon as possible", "", "", ""]);
});

test("cron lines in words, and others as they are", () => {
  for (const [cron, words] of Object.entries({
    "0 9 * * *": "every day at 09:00", "30 7,19 * * *": "every day at 07:30 and 19:30",
    "0 9 * * 1-5": "weekdays at 09:00", "0 9 * * mon-fri": "weekdays at 09:00",
    "15 8 * * 1": "Mondays at 08:15", "0 9 * * sat,0": "Saturdays and Sundays at 09:00", "0 9 * * 7": "Sundays at 09:00",
    "0 6 1 * *": "on day 1 of every month at 06:00",
    "*/15 * * * *": "every 15 minutes", "* * * * *": "every minute", "0 * * * *": "every hour", "20 * * * *": "every hour, 20 min past",
    "0 */6 * * *": "every 6 hours", "0 */1 * * *": "every hour",
  })) assert.equal(inWords(cron), words, cron);
  for (const cron of ["*/7 * * * *", "0 */5 * * *", "0 9 1 1 *", "0 9 1 * 1", "0 9-17 * * *", "0 9 * * 1-3", "0 9 * * 1#2", "nonsense", ""]) assert.equal(inWords(cron), cron);
});

test("places", () => {
  assert.deepEqual(place("WEBUI-x", {}), { label: "a thread", href: "#x" });
  assert.deepEqual(place("SESSION-s1"), { label: "session s1", href: "#SESSION-s1" });
  assert.deepEqual(place("tg-42"), { label: "Telegram 42" });
  assert.deepEqual(place("C024"), { label: "Slack C024" });
  assert.deepEqual(place("ESCALATE-billing"), { label: "escalations of billing" });
});

test("how long it is to a time", () => {
  const after = (ms) => until(new Date(now + ms), now);
  assert.deepEqual([after(-5000), after(20_000), after(90_000), after(3_600_000), after(40 * 3_600_000)], ["now", "now", "in 2 min", "in 1 h", "in 2 days"]);
});

const at = new Date(now - 5 * 60_000).toISOString();
const health = (more = {}) => ({ ok: true, since: at, restarts: 0, turns: 3, cost: 0.5, memory: 31_000_000, last: { channel: "BRIDGE-x", at, outcome: "final" }, ...more });

test("how an agent is, in words", () => {
  const state = (h) => { const c = card({ name: "billing", description: "", health: h }, now); return c.tone + " " + c.state; };
  assert.equal(state(undefined), "new not asked yet");
  assert.equal(state(health()), "good well");
  assert.equal(state(health({ running: [{ channel: "BRIDGE-x", since: at }] })), "busy working");
  assert.equal(state(health({ ok: false, error: "refused" })), "bad does not answer");
  assert.equal(state(health({ ok: false, error: "refused", state: "stopped" })), "off stopped");
  assert.equal(state(health({ ok: false, error: "refused", state: "failed" })), "bad failed");
  assert.equal(state(health({ ok: false, error: "refused", state: "running" })), "bad does not answer");
});

test("what is told of an agent", () => {
  const c = card({ name: "billing", description: "invoices", health: health({ restarts: 2, running: [{ channel: "BRIDGE-x", since: at }, { channel: "BRIDGE-y", since: at }] }) }, now);
  assert.deepEqual(Object.fromEntries(c.facts), {
    Running: "bridge x for 5 min, and 1 more", "Last turn": "answered 5 min ago", Memory: "31 MB", Restarts: "2", Cost: "$0.50 · 3 turns",
  });
  const facts = (h) => Object.fromEntries(card({ name: "a", health: h }, now).facts);
  assert.equal(facts(health({ last: { at, outcome: "model" } }))["Last turn"], "failed (model) 5 min ago");
  assert.deepEqual(facts({ ok: true, restarts: 0, turns: 0, cost: 0, memory: 0 }), { Running: "nothing", "Last turn": "none yet", Memory: "unknown", Restarts: "0", Cost: "$0.00" });
  assert.equal(card({ name: "a", health: health({ ok: false, error: "refused" }) }, now).trouble, "refused");
  assert.deepEqual(facts({ ok: false, error: "refused", restarts: 2, turns: 0, cost: 0, memory: 0 }), { Restarts: "2" }, "one that never answered");
});

test("agents that need somebody come first", () => {
  const all = [["a", health()], ["b", health({ ok: false, error: "x" })], ["c", health({ ok: false, state: "stopped" })], ["d", health({ running: [{ channel: "BRIDGE-x", since: at }] })]];
  assert.equal(order(all.map(([name, h]) => card({ name, health: h }, now))).map((c) => c.name).join(""), "bdac");
});

test("the form of a plan becomes an event, or a sentence", () => {
  const form = { text: " look ", how: "day", at: "2027-03-27T09:00", time: "09:05", weekday: "0", cron: " 0  9 * * 1 ", where: "WEBUI-t1" };
  const of = (more) => eventOf({ ...form, ...more }, zone);
  assert.deepEqual(of({}), { channelId: "WEBUI-t1", text: "look", type: "periodic", schedule: "5 9 * * *", timezone: zone });
  assert.equal(of({ how: "weekdays" }).schedule, "5 9 * * 1-5");
  assert.equal(of({ how: "week" }).schedule, "5 9 * * 0");
  assert.equal(of({ how: "hour", time: "" }).schedule, "0 * * * *");
  assert.equal(of({ how: "cron" }).schedule, "0 9 * * 1");
  assert.equal(eventOf(form).timezone, "UTC");
  const once = of({ how: "once" });
  assert.deepEqual([once.type, once.at, once.schedule], ["one-shot", new Date("2027-03-27T09:00").toISOString().replace(".000Z", "Z"), undefined]);
  for (const bad of [{ text: "  " }, { how: "once", at: "" }, { how: "once", at: "soon" }, { time: "" }, { how: "cron", cron: "0 9 *" }]) {
    assert.throws(() => of(bad), /^Error: [A-Z].*\.$/);
  }
});

test("the first proposal of a time is a full hour, not too soon", () => {
  for (const at of ["2027-03-26T11:00:00", "2027-03-26T11:29:59", "2027-03-26T11:31:00", "2027-12-31T23:45:00"]) {
    const proposed = new Date(soon(Date.parse(at))).getTime() - Date.parse(at);
    assert.ok(proposed >= 30 * 60_000 && proposed <= 90 * 60_000, at);
  }
});
