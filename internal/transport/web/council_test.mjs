import assert from "node:assert/strict";
import test from "node:test";
import { Council, idOf, peopleOf } from "./page/js/council.js";

test("ids are made of names", () => {
  for (const [name, id] of [["Ana", "ana"], ["José María", "jose-maria"], ["  ", ""], ["Łódź 3!", "odz-3"], ["a".repeat(60), "a".repeat(40)]]) {
    assert.equal(idOf(name), id);
  }
});

test("people are read from names, each once", () => {
  assert.deepEqual(peopleOf("Ana, Ben\nana; Cy,, "), [{ id: "ana", name: "Ana" }, { id: "ben", name: "Ben" }, { id: "cy", name: "Cy" }]);
});

test("looking as somebody else forgets what was drawn", async () => {
  const asked = [];
  globalThis.document = { hidden: false };
  globalThis.fetch = async (path) => {
    asked.push(path);
    return { status: 200, ok: true, json: async () => (path === "/rooms" ? { rooms: [] } : { viewer: path }) };
  };
  const client = { state: { login: "in", council: null }, set(c) { Object.assign(this.state, c); }, guard: async (f) => f() };
  const council = new Council(client);
  client.set({ council: { rooms: [], room: "dinner", as: "cy", view: { private: "secret" }, pane: "room" } });
  council.look("ben");
  assert.equal(client.state.council.view, null);
  await new Promise((r) => setTimeout(r, 10));
  assert.ok(asked.includes("/rooms/dinner?as=ben"));
  assert.deepEqual(client.state.council.view, { viewer: "/rooms/dinner?as=ben" });
  council.close();
  assert.equal(client.state.council, null);
});

test("an answer for another level is not drawn", async () => {
  const answers = [];
  globalThis.fetch = (path) => new Promise((r) => answers.push([path, () => r({ status: 200, ok: true, json: async () => (path === "/rooms" ? { rooms: [] } : { viewer: path }) })]));
  const client = { state: { login: "in", council: { rooms: [], room: "dinner", as: "cy", view: null, pane: "room" } }, set(c) { Object.assign(this.state, c); }, guard: async (f) => f() };
  const council = new Council(client);
  const first = council.refresh();
  answers.shift()[1]();
  await new Promise((r) => setTimeout(r, 5));
  council.set({ as: "ben" });
  answers.shift()[1]();
  await first;
  assert.equal(client.state.council.view, null);
});
