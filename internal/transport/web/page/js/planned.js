// What is planned, in words: pure functions of what the server lists.

const hour = 3_600_000;

// rows puts what is planned in the order in which people care: what is broken,
// what is due next, what rests. titles are the threads' titles by id.
export function rows(schedules, titles = {}, now = Date.now(), zone) {
  const all = schedules.map((s) => row(s, titles, now, zone));
  const rank = { broken: 0, due: 1, paused: 2, over: 3 };
  return all.sort((a, b) => rank[a.state] - rank[b.state] || (a.at ?? 0) - (b.at ?? 0) || (a.file < b.file ? -1 : 1));
}

function row(s, titles, now, zone) {
  const e = s.event;
  const times = s.upcoming ?? [];
  const state = s.problem ? "broken" : e.paused ? "paused" : s.next ? "due" : "over";
  const next = s.next && new Date(s.next);
  return {
    file: s.file, name: s.name, text: e.text ?? "", problem: s.problem ?? "", state,
    at: next?.getTime(), datetime: s.next,
    once: e.type !== "periodic",
    when: e.type === "immediate" ? "As soon as possible" : next ? moment(next, now, zone) : "",
    left: e.type === "immediate" || !next ? "" : until(next, now),
    own: next && e.type !== "immediate" ? ownClock(e, next, zone) : "",
    then: times.slice(1).map((t) => moment(new Date(t), now, zone)),
    rule: ruleOf(e), cron: e.schedule ? e.schedule + " " + (e.timezone ?? "") : "",
    where: place(e.channelId ?? "", titles),
  };
}

function ruleOf(e) {
  if (e.type === "periodic") return inWords(e.schedule);
  if (e.type === "one-shot" && e.at) return "once";
  return "";
}

const day = (date, zone) => date.toLocaleDateString("en-CA", { timeZone: zone });

// moment is a time as people say it, in a zone; none is the browser's.
export function moment(date, now, zone) {
  const time = date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", timeZone: zone });
  const that = day(date, zone);
  if (that === day(new Date(now), zone)) return "Today, " + time;
  if (that === day(new Date(now + 24 * hour), zone)) return "Tomorrow, " + time;
  const near = date.getTime() - now < 6 * 24 * hour;
  const far = date.getTime() - now > 300 * 24 * hour;
  const names = near ? { weekday: "long" } : { weekday: "short", month: "short", day: "numeric", year: far ? "numeric" : undefined };
  return date.toLocaleDateString(undefined, { ...names, timeZone: zone }) + ", " + time;
}

// until is how long it is to a time.
export function until(date, now) {
  const m = Math.round((date.getTime() - now) / 60_000);
  if (m < 1) return "now";
  if (m < 60) return "in " + m + " min";
  if (m < 180) return "in " + Math.floor(m / 60) + " h" + (m % 60 ? " " + (m % 60) + " min" : "");
  if (m < 36 * 60) return "in " + Math.round(m / 60) + " h";
  return "in " + Math.round(m / 1440) + " days";
}

// ownClock is what the clock of the event's own zone shows when it is due, empty
// if that is what the reader's shows. The day is named when it is another one.
export function ownClock(e, date, zone) {
  const show = (d, names, timeZone) => d.toLocaleString(undefined, { ...names, timeZone });
  const clock = { hour: "2-digit", minute: "2-digit" };
  const weekday = { weekday: "short" };
  let [there, own, name] = [date, e.timezone, e.timezone ?? ""];
  if (e.type !== "periodic") {
    const at = /([+-])(\d\d):(\d\d)$|Z$/i.exec(e.at ?? "");
    if (!at) return "";
    // Not every browser takes an offset for a zone.
    const minutes = at[1] ? (at[1] + "1") * (at[2] * 60 + +at[3]) : 0;
    [there, own, name] = [new Date(date.getTime() + minutes * 60_000), "UTC", minutes ? "UTC" + at[0] : "UTC"];
  }
  try {
    const other = show(there, weekday, own) !== show(date, weekday, zone);
    const time = show(there, clock, own);
    if (!other && time === show(date, clock, zone)) return "";
    return (other ? show(there, weekday, own) + " " : "") + time + " in " + name.replaceAll("_", " ");
  } catch {
    return ""; // a zone that this browser does not know
  }
}

export const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const short = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

// inWords says what a cron line means, for the lines that people write; another
// one stays as it is.
export function inWords(cron = "") {
  const f = cron.trim().split(/\s+/);
  if (f.length !== 5) return cron;
  const [minute, hours, date, month, weekday] = f;
  if (month !== "*") return cron;
  const step = /^\*\/(\d+)$/.exec(minute)?.[1];
  const everyDay = date === "*" && weekday === "*";
  if (everyDay && hours === "*") {
    if (minute === "*" || step === "1") return "every minute";
    if (step && 60 % step === 0) return `every ${step} minutes`;
    if (minute === "0") return "every hour";
    return /^\d+$/.test(minute) ? `every hour, ${minute} min past` : cron;
  }
  const every = /^\*\/(\d+)$/.exec(hours)?.[1];
  if (everyDay && every && minute === "0" && 24 % every === 0) return every === "1" ? "every hour" : `every ${every} hours`;
  if (!/^\d+$/.test(minute) || !/^\d+(,\d+)*$/.test(hours)) return cron;
  const at = " at " + hours.split(",").map((h) => h.padStart(2, "0") + ":" + minute.padStart(2, "0")).join(" and ");
  if (everyDay) return "every day" + at;
  if (date === "*") {
    const names = weekdays(weekday);
    return names ? names + at : cron;
  }
  return weekday === "*" && /^\d+$/.test(date) ? `on day ${date} of every month` + at : cron;
}

function weekdays(field) {
  const one = (w) => {
    const n = short.indexOf(w.toLowerCase());
    return n >= 0 ? n : /^[0-7]$/.test(w) ? w % 7 : -1;
  };
  const [from, to, more] = field.split("-");
  if (to && more === undefined && one(from) === 1 && one(to) === 5) return "weekdays";
  const all = field.split(",").map(one);
  return all.includes(-1) ? "" : all.map((n) => days[n] + "s").join(" and ");
}

// place is where an event wakes somebody: words, and a link if it is a thread that
// the page shows.
export function place(channel, titles = {}) {
  const web = /^WEBUI-(.+)$/.exec(channel)?.[1];
  if (web) return { label: titles[web] || "a thread", href: "#" + web };
  if (channel.startsWith("SESSION-")) return { label: "session " + channel.slice(8), href: "#" + channel };
  if (channel.startsWith("tg-")) return { label: "Telegram " + channel.slice(3) };
  for (const [start, name] of [["BRIDGE-", "bridge "], ["ESCALATE-", "escalations of "]]) {
    if (channel.startsWith(start)) return { label: name + channel.slice(start.length) };
  }
  return { label: channel ? "Slack " + channel : "nowhere" };
}

// eventOf is the event that the form means: what, when and where. zone is the
// reader's, in which the times of the form are meant. An error is a sentence for
// the reader.
export function eventOf(form, zone) {
  const event = { channelId: form.where, text: form.text.trim() };
  if (!event.text) throw new Error("Say what Iris is to do.");
  if (form.how === "once") {
    const at = new Date(form.at);
    if (!form.at || Number.isNaN(at.getTime())) throw new Error("Choose a day and a time.");
    // In UTC: a date of this browser's clock is a moment, whatever zone the server has.
    return { ...event, type: "one-shot", at: at.toISOString().replace(/\.\d+Z$/, "Z") };
  }
  return { ...event, type: "periodic", schedule: cronOf(form), timezone: zone || "UTC" };
}

function cronOf(form) {
  if (form.how === "cron") {
    const cron = form.cron.trim().replace(/\s+/g, " ");
    if (cron.split(" ").length !== 5) throw new Error("A cron line has five fields: minute, hour, day, month, weekday.");
    return cron;
  }
  if (form.how === "hour") return "0 * * * *";
  const time = /^(\d\d):(\d\d)/.exec(form.time);
  if (!time) throw new Error("Choose a time.");
  const on = { day: "*", weekdays: "1-5", week: String(form.weekday) }[form.how];
  return `${+time[2]} ${+time[1]} * * ${on}`;
}

// soon is the next full hour that is at least half an hour away, as a field of a
// form shows it.
export function soon(now) {
  const d = new Date(now + 1.5 * hour);
  d.setMinutes(0, 0, 0);
  const two = (n) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:00`;
}

