// The requests of the page. An answer of 401 is an Unauthorized, so that every
// caller ends at the login form.

export class Unauthorized extends Error {}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function call(path, init) {
  let res;
  try {
    res = await fetch(path, { credentials: "same-origin", ...init });
  } catch {
    throw new Error("The server cannot be reached.");
  }
  const body = await res.json().catch(() => ({}));
  if (res.status === 401) throw new Unauthorized(body.error || "unauthorized");
  if (!res.ok) throw new Refused(res.status, body.error || "The server answered " + res.status + ".");
  return body;
}

const send = (path, body) => call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export const threads = () => call("/page/threads").then((b) => b.threads ?? []);
export const history = (thread) => call(`/page/threads/${encodeURIComponent(thread)}/history`);
export const status = (thread) => call("/page/status" + (thread ? "?thread=" + encodeURIComponent(thread) : ""));
export const agents = () => call("/agents").then((b) => b.agents ?? []);
export const schedules = () => call("/schedules");

export const plan = (event) => send("/schedules", event);

// changeSchedule runs, pauses, resumes or cancels what is planned.
export const changeSchedule = (file, action) =>
  send("/schedules/" + encodeURIComponent(file), { action });

export const rooms = () => call("/rooms").then((b) => b.rooms ?? []);
export const room = (id, as) => call(`/rooms/${encodeURIComponent(id)}` + (as ? "?as=" + encodeURIComponent(as) : ""));
export const makeRoom = (spec) => send("/rooms", spec);
export const roomEvent = (id, event) => send(`/rooms/${encodeURIComponent(id)}/events`, event);
export const roomStep = (id, order) => send(`/rooms/${encodeURIComponent(id)}/steps`, order);

export const logout = () => call("/logout", { method: "POST" });

// ways says how somebody can log in.
export const ways = () => call("/login", { headers: { Accept: "application/json" } });

export const login = (password) =>
  call("/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ password }) });

// channelOf is the name under which a thread's files are kept.
export const channelOf = (thread) => (thread.startsWith("SESSION-") ? thread : "WEBUI-" + thread);

// fileURL is where a file that somebody attached can be had.
export function fileURL(thread, local) {
  return `/files/${encodeURIComponent(channelOf(thread))}/${encodeURIComponent(local.split("/").at(-1))}`;
}

// maxUpload is the server's limit.
export const maxUpload = 25 << 20;

// upload sends a file; progress is called with 0 to 1. XMLHttpRequest, because
// fetch does not tell how much has been sent.
export function upload(thread, file, progress) {
  const xhr = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    xhr.open("POST", "/upload?channel=" + encodeURIComponent(channelOf(thread)));
    xhr.setRequestHeader("X-Filename", encodeURIComponent(file.name || "pasted"));
    xhr.setRequestHeader("Content-Type", "application/octet-stream");
    xhr.upload.onprogress = (e) => e.lengthComputable && progress(e.loaded / e.total);
    xhr.onerror = () => reject(new Error("The upload was cut off."));
    xhr.onabort = () => reject(new Error("cancelled"));
    xhr.onload = () => {
      let body = {};
      try {
        body = JSON.parse(xhr.responseText);
      } catch {
        // The status says enough.
      }
      if (xhr.status === 200 && body.local) resolve(body);
      else if (xhr.status === 401) reject(new Unauthorized("unauthorized"));
      else reject(new Refused(xhr.status, body.error || "The server answered " + xhr.status + "."));
    };
    xhr.send(file);
  });
  return { done, cancel: () => xhr.abort() };
}

// socketURL is the address of a thread's socket, after a sequence number.
export function socketURL(thread, agent, since) {
  const u = new URL("/ws", location.href);
  u.protocol = u.protocol === "https:" ? "wss:" : "ws:";
  u.searchParams.set("thread", thread);
  if (agent) u.searchParams.set("agent", agent);
  u.searchParams.set("since", since);
  return u.href;
}
