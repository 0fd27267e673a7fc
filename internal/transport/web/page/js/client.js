// The page's one state and everything that changes it. Parts draw what is here
// and call the methods; none of them keeps a copy.
import * as api from "./api.js";
import { Council } from "./council.js";
import * as kept from "./kept.js";
import { Link } from "./socket.js";
import * as store from "./store.js";
import { Views, viewOf } from "./views.js";

// refreshEvery is how often the list of threads is asked for while the page is
// looked at; what happens in the open thread comes over its socket.
const refreshEvery = 8000;
// flashFor is how long a line that needs no answer stays.
const flashFor = 7000;
// maxText is below the server's limit for a frame.
const maxText = 900_000;

export class Client {
  constructor(changed) {
    this.changed = changed;
    this.state = {
      login: "checking", // checking, out, in
      threads: null, agents: [], about: {},
      thread: "", loading: false, trouble: "", agent: "",
      data: store.emptyThread(), link: "closed", retryAt: 0, status: null,
      uploads: [], unread: 0, theme: kept.theme(), seen: kept.seen(),
      council: null, view: "", shown: null, // a view beside the threads, and what it shows
    };
    this.frames = [];
    this.views = new Views(this);
    this.council = new Council(this);
    addEventListener("hashchange", () => this.route());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return;
      this.set({ unread: 0 });
      this.look();
      this.refresh();
    });
    setInterval(() => !document.hidden && this.state.login === "in" && this.refresh(), refreshEvery);
  }

  set(changes) {
    Object.assign(this.state, changes);
    this.changed();
  }

  // start finds out whether somebody is logged in.
  async start() {
    if (await this.guard(() => this.refresh(true))) return;
    this.set({ login: "in" });
    const known = this.guard(async () => this.set({ agents: await api.agents() }));
    const agent = new URLSearchParams(location.search).get("agent");
    if (agent) {
      await known;
      history.replaceState(null, "", location.pathname + location.hash);
      return this.begin(agent);
    }
    this.route();
  }

  // route shows what the address names: a thread or a view beside the threads.
  async route() {
    const address = threadOfHash();
    const view = viewOf(address);
    if (view === "council") this.council.open(address.split("/")[2] ?? "");
    else this.council.close();
    if (view) {
      this.views.open(view);
      if (!this.state.thread) await this.open("");
      return;
    }
    this.views.close();
    await this.open(address);
    this.look();
  }

  // begin opens a new thread that an agent answers.
  async begin(agent) {
    if (location.hash) history.pushState(null, "", location.pathname);
    this.views.close();
    await this.open("");
    if (this.state.agents.some((a) => a.name === agent)) this.choose(agent);
    else this.flash("error", `There is no agent “${agent}” here. Iris answers in this thread.`);
  }

  // back leaves a view for the thread below it.
  back() {
    go(this.state.fresh ? "" : this.state.thread);
  }

  // guard runs an action; when nobody is logged in it shows the login form. It
  // returns the error, if any.
  async guard(action) {
    try {
      await action();
    } catch (err) {
      if (err instanceof api.Unauthorized) this.leave();
      return err;
    }
  }

  leave() {
    this.link?.close();
    this.link = null;
    this.council.close();
    this.set({ login: "out", link: "closed" });
  }

  async login(password) {
    await api.login(password);
    this.set({ thread: "", threads: null });
    await this.start();
  }

  async logout() {
    await this.guard(() => api.logout());
    this.leave();
  }

  async refresh(strict) {
    try {
      this.set({ threads: await api.threads() });
    } catch (err) {
      if (err instanceof api.Unauthorized) {
        if (strict) throw err;
        return this.leave();
      }
      if (strict && this.state.login === "checking") {
        this.set({ trouble: err.message });
        await new Promise((r) => setTimeout(r, 1500));
        return this.refresh(strict);
      }
    }
  }

  // open shows a thread; an empty name shows a new one.
  async open(thread) {
    if (this.state.login !== "in" || (thread === this.state.thread && this.link)) return;
    const fresh = thread === "";
    if (fresh) thread = kept.newID("t");
    this.link?.close();
    this.link = null;
    this.frames = [];
    this.set({
      thread, fresh, loading: !fresh, trouble: "", data: store.emptyThread(), link: "closed", uploads: [],
      agent: kept.agentOf(thread), status: null,
    });
    if (!fresh) await this.load();
    if (this.state.thread !== thread || this.state.login !== "in") return;
    this.connect();
    this.tally();
    this.look();
  }

  // load takes the thread's history, again until it has it.
  async load() {
    const thread = this.state.thread;
    for (let n = 0; this.state.thread === thread; n++) {
      try {
        const history = await api.history(thread);
        if (this.state.thread !== thread) return;
        const { truncated, flashes } = this.state.data;
        this.set({ data: { ...store.fromHistory(history, this.unsent(thread)), truncated, flashes }, loading: false, trouble: "" });
        this.settleOutbox();
        return;
      } catch (err) {
        if (err instanceof api.Unauthorized) return this.leave();
        if (err instanceof api.Refused && err.status < 500) return this.set({ loading: false, trouble: err.message });
        this.set({ trouble: err.message });
        await new Promise((r) => setTimeout(r, Math.min(8000, 500 * 2 ** n)));
      }
    }
  }

  // unsent is what waits in this tab or was left by an earlier one.
  unsent(thread) {
    const here = this.state.data.pending;
    return [...here, ...kept.outbox(thread).filter((m) => !here.some((x) => x.id === m.id))];
  }

  connect() {
    const thread = this.state.thread;
    this.link = new Link({
      url: () => api.socketURL(thread, this.state.agent, this.state.data.seq),
      onState: (link, retryAt = 0) => {
        if (link === "out") this.leave();
        else this.set({ link, retryAt });
      },
      onOpen: () => {
        for (const m of this.state.data.pending) if (!m.failed) this.transmit(m);
        this.refresh();
      },
      onFrame: (f) => this.take(f),
      probe: async () => !((await this.guard(() => api.status())) instanceof api.Unauthorized),
    });
  }

  // take gathers frames until the next picture is drawn. A hidden page draws
  // none, so there a timer has to do.
  take(frame) {
    this.frames.push({ ...frame, received: Date.now() });
    if (this.frames.length > 1) return;
    if (document.hidden) setTimeout(() => this.flush(), 50);
    else requestAnimationFrame(() => this.flush());
    setTimeout(() => this.flush(), 250); // the page may be hidden meanwhile
  }

  flush() {
    const frames = this.frames;
    if (!frames.length) return;
    this.frames = [];
    this.update(store.applyAll(this.state.data, frames));
    const over = frames.some((f) => f.type === "final" || f.type === "error" || f.type === "delete");
    if (over && document.hidden) this.set({ unread: this.state.unread + 1 });
    if (over || frames.some((f) => f.type === "message" || f.type === "thread")) {
      this.look();
      this.refresh();
      this.tally();
    }
    if (this.state.data.stale) this.guard(() => this.reload());
  }

  async reload() {
    this.update({ ...this.state.data, stale: false });
    this.link?.close();
    await this.load();
    this.connect();
  }

  update(data) {
    const before = this.state.data;
    this.set({ data });
    if (before.pending !== data.pending) this.settleOutbox();
    for (const f of data.flashes) {
      if (f.tone === "info" && !before.flashes.includes(f)) setTimeout(() => this.dismiss(f.key), flashFor);
    }
  }

  settleOutbox() {
    kept.keepOutbox(this.state.thread, this.state.data.pending);
  }

  // tally asks what the thread has cost.
  async tally() {
    const thread = this.state.thread;
    await this.guard(async () => {
      const status = await api.status(thread);
      if (this.state.thread === thread) this.set({ status });
    });
  }

  // look remembers that the open thread has been seen.
  look() {
    if (document.hidden || this.state.fresh || this.state.view || !this.state.thread) return;
    const seen = { ...this.state.seen };
    delete seen[this.state.thread];
    seen[this.state.thread] = Date.now();
    kept.keepSeen(seen);
    this.set({ seen });
  }

  // send says something and returns why it cannot, if so. The message is shown,
  // kept and sent again after a reconnect until the server has confirmed it.
  send(text, files = []) {
    if (text.length > maxText) return "This text is too long for a message. Attach it as a file.";
    const m = { id: kept.newID("w"), text, files, at: new Date().toISOString() };
    if (this.state.fresh) {
      this.state.fresh = false;
      history.pushState(null, "", "#" + this.state.thread);
    }
    this.update(store.addPending(this.state.data, m));
    this.transmit(m);
  }

  transmit(m) {
    this.link?.send({ type: "message", id: m.id, text: m.text, attachments: m.files.map((f) => ({ local: f.local })) });
  }

  retry(id) {
    this.update(store.retryPending(this.state.data, id));
    const m = this.state.data.pending.find((x) => x.id === id);
    if (m) this.transmit(m);
  }

  discard(id) {
    this.update(store.dropPending(this.state.data, id));
  }

  // command is stop, compact or reset.
  command(action) {
    if (!this.link?.send({ type: "command", action })) return this.flash("error", "Not connected. Try again in a moment.");
    if (action === "compact") this.flash("info", "Compacting the context…");
  }

  // answer settles a question; choice is an option, "always", or words.
  answer(ask, yes, choice) {
    if (!this.link?.send({ type: "answer", ask, yes, choice })) return this.flash("error", "Not connected. Try again in a moment.");
    this.update(store.settleAsk(this.state.data, ask));
  }

  flash(tone, text) {
    this.update(store.flash(this.state.data, tone, text));
  }

  dismiss(key) {
    this.update(store.dropFlash(this.state.data, key));
  }

  // attach uploads files for the next message.
  attach(list) {
    for (const file of list) {
      const key = kept.newID("u");
      const up = { key, name: file.name || "pasted", size: file.size, progress: 0 };
      if (file.size === 0) up.error = "The file is empty.";
      if (file.size > api.maxUpload) up.error = "Larger than 25 MB.";
      this.set({ uploads: [...this.state.uploads, up] });
      if (up.error) continue;
      const thread = this.state.thread;
      const { done, cancel } = api.upload(thread, file, (progress) => this.uploaded(key, { progress }));
      this.uploaded(key, { cancel });
      done.then(
        (r) => this.uploaded(key, { local: r.local, progress: 1 }),
        (err) => {
          if (err instanceof api.Unauthorized) this.leave();
          this.uploaded(key, { error: err.message });
        },
      );
    }
  }

  uploaded(key, changes) {
    this.set({ uploads: this.state.uploads.map((u) => (u.key === key ? { ...u, ...changes } : u)) });
  }

  detach(key) {
    this.state.uploads.find((u) => u.key === key && !u.local)?.cancel?.();
    this.set({ uploads: this.state.uploads.filter((u) => u.key !== key) });
  }

  // choose sets who answers this thread; the socket carries the choice.
  choose(agent) {
    kept.keepAgent(this.state.thread, agent);
    this.set({ agent });
    this.link?.close();
    this.connect();
  }

  theme(name) {
    kept.setTheme(name);
    this.set({ theme: name });
  }
}

const threadOfHash = () => {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
};

// go shows a thread and puts it into the address, for reloads and the way back.
export function go(thread) {
  if (location.hash === "#" + thread || (!thread && !location.hash)) dispatchEvent(new Event("hashchange"));
  else location.hash = thread;
}
