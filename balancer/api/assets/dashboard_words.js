"use strict";
// What the dashboard says: states, times and events in words. The states' words are those of `STATE_WORDS`.

const MEANING = {
  OA_BUSY: "batch, busy", OA_IDLE: "batch, idle", OD_ALLOC: "on demand", OD_RESERVE: "reserve",
  RECLAIMING: "moving to on demand", RESTORING: "moving to batch", DOWN: "down", QUARANTINED: "quarantined",
};
const DECIDED = { granted: "granted", rejected: "refused", withdrawn: "withdrawn" };
const QUIET = ["timer_fired", "nodes_observed"];
const NEWS = ["moved", "decided", "contested", "overdue", "ended"];
const names = (list) => (list.length > 6 ? `${list.slice(0, 6).join(" ")} and ${list.length - 6} more` : list.join(" "));
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const when = (at_ms) => new Date(at_ms).toLocaleString();

// "4 min ago", "in 2 h"
function relative(at_ms, now_ms) {
  const past_s = (now_ms - at_ms) / 1000;
  const text = duration(Math.abs(past_s));
  if (text === "") return "just now";
  return past_s >= 0 ? `${text} ago` : `in ${text}`;
}

function duration(length_s) {
  if (length_s < 5) return "";
  if (length_s < 90) return `${Math.round(length_s)} s`;
  if (length_s < 90 * 60) return `${Math.round(length_s / 60)} min`;
  if (length_s < 48 * 3600) return `${Math.round(length_s / 3600)} h`;
  return `${Math.round(length_s / 86400)} d`;
}

// It changed nothing: the time came, or a reading brought nothing new.
const isQuiet = (event) => QUIET.includes(event.kind) && !event.body.long && !NEWS.some((word) => word in event.body);

// "n01 n02 batch, busy; n03 reserve": where the nodes are that moved
function movedWords(body) {
  const by = new Map();
  for (const [name, , after] of body.moved ?? []) by.set(after, [...(by.get(after) ?? []), name]);
  return [...by].map(([state, moved]) => `${names(moved)} ${MEANING[state] ?? state}`).join("; ");
}

// One sentence for each kind of event; another kind is shown by its name.
const WORDS = {
  started: (b) => `The service started (version ${b.version}, epoch ${b.epoch}).`,
  configured: (b) => [b.added.length && `Nodes added: ${names(b.added)}.`, b.removed.length && `Nodes removed: ${names(b.removed)}.`, "The configuration was read again."].filter(Boolean).join(" "),
  nodes_requested: (b) => `${plural(b.count, "node")} requested (${b.request_id}).`,
  request_withdrawn: (b) => `Request ${b.request_id} was withdrawn.`,
  grant_confirmed: (b) => `Request ${b.request_id} was confirmed.`,
  lease_renewed: (b) => `The lease of ${b.request_id} was renewed.`,
  nodes_released: (b) => `Given back: ${names(b.nodes)}.`,
  nodes_updated: (b) => `Job ${b.job ?? "unknown"} ${b.busy.length ? `started on ${names(b.busy)}` : `ended on ${names(b.idle)}`}.`,
  reserve_added: (b) => `${plural(b.count, "node")} announced (${b.reserve_id}).`,
  reserve_withdrawn: (b) => `Reserve ${b.reserve_id} withdrawn.`,
  nodes_reclaimed: (b) => [b.done.length && `Taken over from batch: ${names(b.done)}.`, b.busy.length && `Kept by their job: ${names(b.busy)}.`,
    b.unclear.length && `Do not obey: ${names(b.unclear)}.`].filter(Boolean).join(" "),
  nodes_restored: (b) => [b.done.length && `Back in batch: ${names(b.done)}.`, b.unclear.length && `Do not come back: ${names(b.unclear)}.`].filter(Boolean).join(" "),
  nodes_observed: (b) => [b.moved && `Read from the batch system; now ${movedWords(b)}.`, b.contested && `A job runs on lent nodes: ${names(Object.keys(b.contested))}.`].filter(Boolean).join(" "),
  nodes_contested: (b) => `A job was reported on lent nodes: ${names(Object.keys(b.nodes))}.`,
  servers_observed: (b) => [b.servers.length && `The cloud has servers on ${names(b.servers)}.`, b.empty.length && `The cloud has none on ${names(b.empty)}.`].filter(Boolean).join(" "),
  nodes_failed: (b) => [`Granted nodes have failed: ${names(Object.keys(b.nodes))}.`, b.replaced_by && `Others are asked for: ${[...new Set(Object.values(b.replaced_by))].join(", ")}.`].filter(Boolean).join(" "),
  nodes_recovered: (b) => `Granted nodes are well again: ${names(b.nodes)}.`,
  nodes_doubted: (b) => `Quarantined, because the ledger may be wrong about them: ${names(Object.keys(b.reasons))}.`,
  nodes_adopted: (b) => [b.on_demand.length && `Settled as on-demand: ${names(b.on_demand)}.`, b.batch.length && `Settled as batch: ${names(b.batch)}.`].filter(Boolean).join(" "),
  timer_fired: (b) => (b.moved ? `A time limit passed; now ${movedWords(b)}.` : "A time limit passed."),
};

function sentence(event) {
  const body = event.body;
  if (body.long) return `${event.kind.replaceAll("_", " ")}: many nodes.`;
  let words;
  try {
    words = WORDS[event.kind](body);
  } catch {
    words = event.kind.replaceAll("_", " ");
  }
  const decided = Object.entries(body.decided ?? {}).map(([id, state]) => `${id} ${DECIDED[state] ?? state}`);
  const overdue = body.overdue?.length && `Past their end: ${body.overdue.join(", ")}.`;
  return [words, decided.length && `Decided: ${decided.join(", ")}.`, overdue].filter(Boolean).join(" ") || event.kind.replaceAll("_", " ");
}
