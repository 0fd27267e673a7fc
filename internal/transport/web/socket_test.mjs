// Tests of page/js/socket.js with a web socket that does what the test says.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Link, wait } from "./page/js/socket.js";

globalThis.addEventListener = () => {};
globalThis.removeEventListener = () => {};
Object.defineProperty(globalThis, "navigator", { value: { onLine: true }, configurable: true });

class Fake {
  static OPEN = 1;
  static all = [];
  constructor(url) {
    this.url = url;
    this.sent = [];
    this.readyState = 0;
    Fake.all.push(this);
  }
  open() {
    this.readyState = 1;
    this.onopen();
  }
  drop() {
    this.readyState = 3;
    this.onclose?.();
  }
  send(data) {
    this.sent.push(JSON.parse(data));
  }
  close() {
    this.readyState = 3;
  }
}
globalThis.WebSocket = Fake;

test("the wait doubles from half a second to eight", () => {
  const even = () => 0.5;
  assert.deepEqual([0, 1, 2, 3, 4, 5, 50].map((n) => wait(n, even)), [500, 1000, 2000, 4000, 8000, 8000, 8000]);
  assert.ok(wait(4, () => 0) < 8000 && wait(4, () => 1) > 8000);
});

test("a link comes back after what it has seen, and gives up without a login", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  Fake.all.length = 0;
  const states = [];
  let since = 0;
  let known = true;
  const link = new Link({
    url: () => "ws://x/?since=" + since, onState: (s) => states.push(s), onOpen: () => states.push("hello"),
    onFrame: (f) => (since = f.seq), probe: async () => known,
  });
  Fake.all[0].open();
  Fake.all[0].onmessage({ data: JSON.stringify({ seq: 41 }) });
  Fake.all[0].onmessage({ data: "no frame" });
  assert.equal(link.send({ a: 1 }), true);
  Fake.all[0].drop();
  assert.equal(link.send({ a: 2 }), false);
  mock.timers.tick(700);
  assert.equal(Fake.all[1].url, "ws://x/?since=41");
  Fake.all[1].drop(); // never opened: the login may be over
  await null;
  assert.equal(states.at(-1), "waiting");
  known = false;
  mock.timers.tick(1300);
  Fake.all[2].drop();
  await new Promise(setImmediate);
  assert.equal(states.at(-1), "out");
  mock.timers.tick(60_000);
  assert.equal(Fake.all.length, 3);
  assert.deepEqual(states.slice(0, 4), ["connecting", "open", "hello", "waiting"]);
  mock.timers.reset();
});

test("a closed link stays closed", () => {
  Fake.all.length = 0;
  const link = new Link({ url: () => "ws://x", onState() {}, onOpen() {}, onFrame: () => assert.fail("a frame"), probe: async () => true });
  const ws = Fake.all[0];
  ws.open();
  link.close();
  ws.onmessage({ data: "{}" });
  ws.drop();
  link.now();
  assert.equal(Fake.all.length, 1);
});
