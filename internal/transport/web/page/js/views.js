// The views beside the threads. Their addresses are "#/name", which no thread can
// have. What one shows is asked for when it is opened, and again and again while
// somebody looks at it.
import * as api from "./api.js";

const refreshEvery = 10_000;
// saidFor is how long the page says that something was done.
const saidFor = 6000;

// loads are the views and how they get what they show; null: they look after that
// themselves.
const loads = { council: null, planned: api.schedules, agents: api.agents };

// viewOf is the view that an address means, "" if it means a thread.
export function viewOf(address) {
  const name = address.startsWith("/") ? address.split("/")[1] : "";
  return Object.hasOwn(loads, name) ? name : "";
}

export class Views {
  constructor(client) {
    this.client = client;
    document.addEventListener("visibilitychange", () => this.look());
  }

  open(view) {
    if (this.client.state.view !== view) this.client.set({ view, shown: { data: null, trouble: "", said: "" } });
    this.look();
  }

  close() {
    clearTimeout(this.timer);
    if (this.client.state.view) this.client.set({ view: "", shown: null });
  }

  // look asks for what is shown now. An answer that comes when another view is
  // open, or after a later question, is not used.
  async look() {
    clearTimeout(this.timer);
    const { view, login } = this.client.state;
    if (!loads[view] || login !== "in" || document.hidden) return;
    const asked = (this.asked = {});
    const err = await this.client.guard(async () => {
      const data = await loads[view]();
      if (view === "agents") this.client.set({ agents: data });
      if (this.asked === asked && this.client.state.view === view) this.show({ data, trouble: "" });
    });
    if (this.asked !== asked || this.client.state.view !== view || this.client.state.login !== "in") return;
    if (err) this.show({ trouble: err.message });
    this.timer = setTimeout(() => this.look(), refreshEvery);
  }

  show(changes) {
    this.client.set({ shown: { ...this.client.state.shown, ...changes } });
  }

  // plan adds an event and returns what was wrong with it, "" for nothing.
  async plan(event) {
    const err = await this.client.guard(() => api.plan(event));
    if (err) return err.message;
    await this.done(null, "Planned.");
    return "";
  }

  // change does something about what is planned and says what came of it.
  async change(file, action, said) {
    await this.done(await this.client.guard(() => api.changeSchedule(file, action)), said);
  }

  async done(err, said) {
    if (this.client.state.view !== "planned") return;
    await this.look();
    if (this.client.state.view !== "planned") return;
    clearTimeout(this.told);
    if (err) return this.show({ said: "", trouble: err.message });
    this.show({ said });
    this.told = setTimeout(() => this.client.state.shown && this.show({ said: "" }), saidFor);
  }
}
