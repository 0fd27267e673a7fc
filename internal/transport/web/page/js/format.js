// Numbers and times as people read them.

export function ago(date, now = Date.now()) {
  const s = Math.max(0, Math.round((now - new Date(date).getTime()) / 1000));
  if (!Number.isFinite(s)) return "";
  if (s < 45) return "now";
  if (s < 3570) return Math.round(s / 60) + " min";
  if (s < 84600) return Math.round(s / 3600) + " h";
  if (s < 86400 * 6.5) return Math.round(s / 86400) + " d";
  return new Date(date).toLocaleDateString(undefined, { month: "short", day: "numeric" });
}

export function clock(date) {
  const d = new Date(date);
  if (Number.isNaN(d.getTime())) return "";
  const today = d.toDateString() === new Date().toDateString();
  const time = d.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  return today ? time : d.toLocaleDateString(undefined, { month: "short", day: "numeric" }) + ", " + time;
}

export function duration(ms) {
  if (ms == null || Number.isNaN(ms)) return "";
  if (ms < 950) return Math.max(1, Math.round(ms)) + " ms";
  if (ms < 9950) return (ms / 1000).toFixed(1) + " s";
  const s = Math.round(ms / 1000);
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
  return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
}

export function bytes(n) {
  if (n == null) return "";
  if (n < 1000) return n + " B";
  if (n < 1e6) return (n / 1e3).toFixed(n < 1e4 ? 1 : 0) + " kB";
  return (n / 1e6).toFixed(n < 1e7 ? 1 : 0) + " MB";
}

export function count(n) {
  if (!n) return "0";
  if (n < 1000) return String(n);
  if (n < 1e6) return (n / 1e3).toFixed(n < 1e4 ? 1 : 0) + "k";
  return (n / 1e6).toFixed(1) + "M";
}

export function money(usd) {
  if (!usd) return "$0.00";
  return "$" + (usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2));
}

export function plural(n, one, many = one + "s") {
  return n + " " + (n === 1 ? one : many);
}

const pictures = /\.(png|jpe?g|gif|webp|avif|bmp)$/i;

// isPicture reports whether a file can be shown, by its name. SVG is a document
// and is not.
export function isPicture(name) {
  return pictures.test(name ?? "");
}

export function pictureType(name) {
  const ext = pictures.exec(name)?.[1].toLowerCase();
  return "image/" + (ext === "jpg" ? "jpeg" : ext);
}
