// What this browser remembers. Storage may be off or full; then the page works
// and forgets.

function read(key, otherwise) {
  try {
    const text = localStorage.getItem("iris." + key);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

function write(key, value) {
  try {
    if (value == null) localStorage.removeItem("iris." + key);
    else localStorage.setItem("iris." + key, JSON.stringify(value));
  } catch {
    // Forgotten.
  }
}

// The outbox holds messages that the server has not confirmed, so that a reload
// loses none. They carry the id under which the server takes them once.
export const outbox = (thread) => read("outbox." + thread, []);
export const keepOutbox = (thread, pending) => write("outbox." + thread, pending.length ? pending : null);

export const draft = (thread) => read("draft." + thread, "");
export const keepDraft = (thread, text) => write("draft." + thread, text || null);

// seen is when a thread was last looked at, by thread.
export const seen = () => read("seen", {});
export const keepSeen = (all) => write("seen", Object.fromEntries(Object.entries(all).slice(-500)));

export const agentOf = (thread) => read("agent." + thread, "");
export const keepAgent = (thread, name) => write("agent." + thread, name || null);

export function theme() {
  const t = document.documentElement.dataset.theme;
  return t === "light" || t === "dark" ? t : "system";
}

// setTheme takes "system", "light" or "dark". theme.js reads it at the next load.
export function setTheme(name) {
  try {
    if (name === "system") localStorage.removeItem("iris.theme");
    else localStorage.setItem("iris.theme", name);
  } catch {
    // It holds until the page is left.
  }
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

// newID is unique and made of characters that the server takes in ids.
export function newID(prefix) {
  const random = crypto.getRandomValues(new Uint8Array(9));
  return prefix + Date.now().toString(36) + "-" + [...random].map((b) => b.toString(36).padStart(2, "0")).join("");
}
