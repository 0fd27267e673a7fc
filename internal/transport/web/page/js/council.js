// The rooms as the page has them: which one is open, as whom it is looked at,
// and what can be done in it. What a level may see is the server's to say; the
// page asks for one level at a time and keeps nothing of another.
import * as api from "./api.js";

// every is how often an open room is asked for while somebody looks.
const every = 1500;

export class Council {
  constructor(client) {
    this.client = client;
    this.timer = 0;
    this.asked = 0;
  }

  get state() {
    return this.client.state.council;
  }

  set(changes) {
    if (this.state) this.client.set({ council: { ...this.state, ...changes } });
  }

  // open shows the list of rooms, or a room.
  open(room) {
    const before = this.state;
    this.client.set({
      council: { rooms: before?.rooms ?? null, room, as: before?.room === room ? before.as : "", view: null, error: "", busy: false, pane: "room" },
    });
    this.loop();
  }

  close() {
    clearTimeout(this.timer);
    if (this.state) this.client.set({ council: null });
  }

  // loop asks now and then again until the page shows something else.
  async loop() {
    clearTimeout(this.timer);
    if (!this.state || this.client.state.login !== "in") return;
    if (!document.hidden || !this.state.rooms) await this.refresh();
    clearTimeout(this.timer);
    if (this.state) this.timer = setTimeout(() => this.loop(), every);
  }

  async refresh() {
    const { room, as } = this.state;
    const n = ++this.asked;
    const err = await this.client.guard(async () => {
      const rooms = await api.rooms();
      const view = room ? await api.room(room, as) : null;
      // Meanwhile somebody may have opened another room, or looks as another.
      if (n !== this.asked || this.state?.room !== room || this.state.as !== as) return;
      if (JSON.stringify(view) !== JSON.stringify(this.state.view) || JSON.stringify(rooms) !== JSON.stringify(this.state.rooms)) this.set({ rooms, view });
      if (this.state.lost) this.set({ lost: "" });
    });
    if (err && this.state) this.set({ lost: err.message });
  }

  // look changes the level. What was drawn of the other one goes away at once.
  look(as) {
    this.set({ as, view: null, error: "", pane: as ? "side" : this.state.pane });
    this.refresh();
  }

  show(pane) {
    this.set({ pane });
  }

  // act runs something that changes the room and shows what came of it. It
  // reports whether it worked.
  async act(run) {
    this.set({ busy: true, error: "" });
    const err = await this.client.guard(run);
    this.set({ busy: false, error: err ? err.message : "" });
    if (this.state) await this.refresh();
    return !err;
  }

  event(event) {
    return this.act(() => api.roomEvent(this.state.room, event));
  }

  step(order) {
    return this.act(() => api.roomStep(this.state.room, order));
  }

  async make(spec) {
    return this.act(() => api.makeRoom(spec));
  }
}

// idOf makes the id of a name.
export function idOf(name) {
  const plain = name.normalize("NFD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
  return plain.replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40);
}

// peopleOf reads names, one to a line or between commas; the same name counts
// once.
export function peopleOf(text) {
  const people = new Map();
  for (const name of text.split(/[\n,;]+/).map((n) => n.trim()).filter(Boolean)) {
    const id = idOf(name);
    if (id && !people.has(id)) people.set(id, { id, name });
  }
  return [...people.values()];
}
