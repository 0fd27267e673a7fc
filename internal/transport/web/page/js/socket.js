// The link to the server: a web socket that comes back by itself. It asks for
// what came after the last frame that was applied, so nothing is missed and
// nothing has to be fetched again.

const first = 500;
const longest = 8000;
// steady is how long a socket must last before the next wait is short again.
const steady = 5000;

// wait is the pause before try n (from 0): 0.5, 1, 2, 4, 8, 8 … seconds, spread
// a little so that many pages do not come back at once.
export function wait(n, random = Math.random) {
  const base = Math.min(longest, first * 2 ** Math.min(n, 10));
  return Math.round(base * (0.85 + 0.3 * random()));
}

export class Link {
  // opts: url() of the next socket, onFrame(frame), onState(state, retryAt),
  // onOpen(), and probe() which resolves to false when nobody is logged in.
  // States: connecting, open, waiting, offline, out (not logged in), closed.
  constructor(opts) {
    this.opts = opts;
    this.tries = 0;
    this.state = "closed";
    this.back = () => this.now();
    this.gone = () => this.lost();
    addEventListener("online", this.back);
    addEventListener("offline", this.gone);
    this.connect();
  }

  set(state, retryAt) {
    this.state = state;
    this.opts.onState(state, retryAt);
  }

  connect() {
    clearTimeout(this.timer);
    if (this.closed) return;
    this.set("connecting");
    const ws = new WebSocket(this.opts.url());
    this.ws = ws;
    ws.onopen = () => {
      if (this.ws !== ws) return ws.close();
      this.opened = Date.now();
      this.set("open");
      this.opts.onOpen();
    };
    ws.onmessage = (e) => {
      if (this.ws !== ws) return;
      let frame;
      try {
        frame = JSON.parse(e.data);
      } catch {
        return;
      }
      this.opts.onFrame(frame);
    };
    ws.onclose = () => this.ws === ws && this.lost();
  }

  // lost plans the next try. Whether the cookie is still good only an ordinary
  // request can tell.
  async lost() {
    const ws = this.ws;
    if (this.closed || !ws) return;
    this.ws = null;
    ws.onclose = null;
    ws.close();
    if (this.opened && Date.now() - this.opened > steady) this.tries = 0;
    const never = !this.opened;
    this.opened = 0;
    if (navigator.onLine === false) return this.set("offline");
    const pause = wait(this.tries++);
    this.set("waiting", Date.now() + pause);
    this.timer = setTimeout(() => this.connect(), pause);
    if (never && (await this.opts.probe()) === false && !this.closed) {
      clearTimeout(this.timer);
      this.set("out");
    }
  }

  // now tries at once.
  now() {
    if (this.closed || this.ws || this.state === "out") return;
    this.tries = 0;
    this.connect();
  }

  // send reports whether the frame was handed to an open socket.
  send(frame) {
    if (this.ws?.readyState !== WebSocket.OPEN) return false;
    this.ws.send(JSON.stringify(frame));
    return true;
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    removeEventListener("online", this.back);
    removeEventListener("offline", this.gone);
    const ws = this.ws;
    this.ws = null;
    ws?.close();
    this.state = "closed";
  }
}
