// How the agents are, in words: pure functions of what the server lists.
import { ago, bytes, duration, money, plural } from "./format.js";
import { place } from "./planned.js";

const services = { stopped: ["off", "stopped"], failed: ["bad", "failed"], missing: ["bad", "its service is gone"], waiting: ["busy", "starting"] };

// card is what is shown of an agent.
export function card(agent, now = Date.now()) {
  const h = agent.health;
  const running = h?.running ?? [];
  const [tone, state] = stateOf(h, running);
  return {
    name: agent.name, description: agent.description, tone, state,
    since: h?.since && tone !== "new" ? ago(h.since, now) : "",
    trouble: h && !h.ok && tone === "bad" ? h.error ?? "" : "",
    facts: h ? facts(h, running, now) : [],
  };
}

function stateOf(h, running) {
  if (!h) return ["new", "not asked yet"];
  if (!h.ok) return services[h.state] ?? ["bad", "does not answer"];
  return running.length ? ["busy", "working"] : ["good", "well"];
}

function facts(h, running, now) {
  if (!h.ok && !h.started && !h.turns && !h.last) return h.restarts ? [["Restarts", String(h.restarts)]] : []; // it never said more
  const last = h.last && ended(h.last.outcome) + " " + since(h.last.at, now);
  const first = running[0];
  const works = first && place(first.channel).label + " for " + duration(now - Date.parse(first.since)).replace(/ min \d+ s$/, " min") + (running.length > 1 ? `, and ${running.length - 1} more` : "");
  return [
    ["Running", works || "nothing"],
    ["Last turn", last || "none yet"],
    ["Memory", h.memory ? bytes(h.memory) : "unknown"],
    ["Restarts", String(h.restarts ?? 0)],
    ["Cost", money(h.cost) + (h.turns ? " · " + plural(h.turns, "turn") : "")],
  ];
}

const since = (at, now) => {
  const t = ago(at, now);
  return t === "now" ? "just now" : /^\d/.test(t) ? t + " ago" : t;
};

function ended(outcome) {
  if (outcome === "final") return "answered";
  if (outcome === "stopped" || outcome === "interrupted") return outcome;
  return "failed" + (outcome && outcome !== "failed" ? ` (${outcome})` : "");
}

// order puts those first that need somebody.
export function order(cards) {
  const rank = { bad: 0, busy: 1, good: 2, new: 3, off: 4 };
  return [...cards].sort((a, b) => rank[a.tone] - rank[b.tone] || (a.name < b.name ? -1 : 1));
}
