"use strict";
// The dashboard: asks once, then follows the event stream; what changed is asked for again at most every 2 s.

const MEANING = {
  OA_BUSY: "batch, busy", OA_IDLE: "batch, idle", RECLAIMING: "moving to on-demand", OD_RESERVE: "on-demand, reserve",
  OD_ALLOC: "on-demand, granted", RESTORING: "moving to batch", DOWN: "not usable",
  HELD: "held, in doubt",
};
const ROWS = 200;
const CALM_MS = 2000;
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const names = (list) => (list.length > 6 ? `${list.slice(0, 6).join(" ")} and ${list.length - 6} more` : list.join(" "));
const clock = (text) => new Date(text).toLocaleTimeString();
const when = (text) => new Date(text).toLocaleString();
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

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
  nodes_observed: (b) => `The batch system reported something new of ${plural(Object.keys(b.states).length, "node")}.`,
  nodes_contested: (b) => `A job was reported on lent nodes: ${names(Object.keys(b.nodes))}.`,
  servers_observed: (b) => [b.servers.length && `The cloud has servers on ${names(b.servers)}.`, b.empty.length && `The cloud has none on ${names(b.empty)}.`].filter(Boolean).join(" "),
  nodes_failed: (b) => [`Granted nodes have failed: ${names(Object.keys(b.nodes))}.`, b.replaced_by && `Others are asked for: ${[...new Set(Object.values(b.replaced_by))].join(", ")}.`].filter(Boolean).join(" "),
  nodes_recovered: (b) => `Granted nodes are well again: ${names(b.nodes)}.`,
  nodes_doubted: (b) => `Held, because the ledger may be wrong about them: ${names(Object.keys(b.reasons))}.`,
  nodes_adopted: (b) => [b.on_demand.length && `Settled as on-demand: ${names(b.on_demand)}.`, b.batch.length && `Settled as batch: ${names(b.batch)}.`].filter(Boolean).join(" "),
  timer_fired: () => "A time came.",
};

let nodes = new Map();
let wanted = "";
let rows = ROWS;
let newest = 0;
let due = null;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function ask(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (answer.status === 401) location.assign("/login");
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

function fill(id, found, empty) {
  const body = byId(id).tBodies[0];
  body.replaceChildren(...found.map((cells) => {
    const row = element("tr");
    row.append(...cells.map((cell) => (cell instanceof Node ? cell : element("td", cell ?? ""))));
    return row;
  }));
  if (!found.length && empty) {
    const cell = element("td", empty, "empty");
    cell.colSpan = byId(id).tHead.rows[0].cells.length;
    body.append(element("tr"));
    body.firstChild.append(cell);
  }
}

function sentence(event) {
  let words;
  if (event.body.long) return `${event.kind.replaceAll("_", " ")}: many nodes.`;
  try {
    words = WORDS[event.kind](event.body);
  } catch {
    words = event.kind.replaceAll("_", " ");
  }
  const decided = Object.entries(event.body.decided ?? {}).map(([id, state]) => `${id} ${state}`);
  return [words, decided.length && `Decided: ${decided.join(", ")}.`].filter(Boolean).join(" ");
}

function eventItem(event) {
  const item = element("li");
  const time = element("time", clock(event.at));
  time.dateTime = event.at;
  item.append(time, sentence(event));
  item.title = `${event.seq} ${event.kind}`;
  return item;
}

function showStatus(status) {
  const total = Object.values(status.nodes).reduce((sum, count) => sum + count, 0);
  const systems = [status.batch, status.cloud].filter(Boolean).map((system) => {
    const age = system.age_s === null ? "never answered" : `answered ${Math.round(system.age_s)} s ago`;
    return `${system.name} ${system.error ? `unreachable, ${age}` : age}`;
  });
  byId("summary").textContent = [plural(total, "node"), `algorithm ${status.algorithm}`, ...systems].join(" · ");
  byId("problem").hidden = !status.problem;
  byId("problem").textContent = status.problem ? `Not ready: ${status.problem}` : "";
  byId("frozen").hidden = !status.frozen;
  byId("frozen").textContent = status.frozen ? `Frozen by ${status.frozen.by}: ${status.frozen.reason}. No node moves.` : "";
}

function showStates() {
  const counts = Object.fromEntries(Object.keys(MEANING).map((state) => [state, 0]));
  for (const row of nodes.values()) counts[row[1]] = (counts[row[1]] ?? 0) + 1;
  const group = byId("states");
  if (!group.childElementCount) {
    for (const state of Object.keys(MEANING)) {
      const button = element("button");
      button.type = "button";
      button.dataset.state = state;
      button.append(element("span", undefined, `key ${state}`), element("span"));
      button.addEventListener("click", () => {
        wanted = wanted === state ? "" : state;
        rows = ROWS;
        showStates();
        showNodes();
      });
      group.append(button);
    }
  }
  for (const button of group.children) {
    button.lastChild.textContent = `${MEANING[button.dataset.state]}: ${counts[button.dataset.state]}`;
    button.setAttribute("aria-pressed", String(button.dataset.state === wanted));
  }
}

function showNodes() {
  const text = byId("filter").value.trim().toLowerCase();
  const found = [];
  for (const row of nodes.values()) {
    if (wanted && row[1] !== wanted) continue;
    if (text && !`${row[0]} ${row[1]} ${MEANING[row[1]] ?? ""} ${row[3]} ${row[4]} ${row[6]}`.toLowerCase().includes(text)) continue;
    found.push(row);
  }
  byId("shown").textContent = `${found.length} of ${nodes.size}`;
  fill("nodes", found.slice(0, rows).map(([name, state, since, request, job, left, remark]) => {
    const cell = element("td");
    cell.append(element("span", undefined, `key ${state}`), MEANING[state] ?? state);
    return [name, cell, when(since * 1000), request, job, left === null ? "" : `${Math.round(left / 60)} min`, remark];
  }), "none");
  byId("more").hidden = found.length <= rows;
}

function showPools(pools) {
  const states = Object.entries(pools.states);
  const slots = states[0][1].length;
  const most = Math.max(1, ...Array.from({ length: slots }, (_, at) => states.reduce((sum, [, counts]) => sum + counts[at], 0)));
  const below = new Array(slots).fill(0);
  byId("chart").replaceChildren(...Object.keys(MEANING).filter((state) => pools.states[state].some(Boolean)).map((state) => {
    const counts = pools.states[state];
    const upper = [];
    const lower = [];
    counts.forEach((count, at) => {
      const left = pools.missing + at;
      lower.unshift(`${left + 1},${80 - (80 * below[at]) / most}`, `${left},${80 - (80 * below[at]) / most}`);
      below[at] += count;
      upper.push(`${left},${80 - (80 * below[at]) / most}`, `${left + 1},${80 - (80 * below[at]) / most}`);
    });
    const shape = document.createElementNS(SVG, "polygon");
    shape.setAttribute("points", [...upper, ...lower].join(" "));
    shape.setAttribute("class", state);
    const title = document.createElementNS(SVG, "title");
    title.textContent = MEANING[state];
    shape.append(title);
    return shape;
  }));
  const start = new Date((pools.end_s - slots * pools.slot_s) * 1000).toLocaleString();
  byId("chart-text").textContent = `From ${start} to now; up to ${plural(most, "node")}.`;
}

async function refresh() {
  const [now, found, pools] = await Promise.all([ask("/dashboard/now"), ask("/dashboard/nodes"), ask("/dashboard/pools")]);
  nodes = new Map(found.nodes.map((row) => [row[0], row]));
  showStatus(now.status);
  fill("waits", now.waiting.map((wait) => [wait.id, `${wait.held} of ${wait.count}`, when(wait.submitted_at), wait.why, wait.end, when(wait.deadline_at)]), "nobody waits");
  fill("reserves", now.reserves.map((each) => [each.id, String(each.count), String(each.used), when(each.by), when(each.kept_until), each.every ? `${each.every} ${each.zone}` : ""]), "none");
  byId("events").replaceChildren(...now.events.filter((event) => event.kind !== "timer_fired").map(eventItem));
  newest = now.status.newest_event;
  showStates();
  showNodes();
  showPools(pools);
}

function refreshSoon() {
  if (due !== null) return;
  due = setTimeout(async () => {
    due = null;
    try {
      await refresh();
    } catch {
      live("off", "no answer; trying again");
      setTimeout(refreshSoon, CALM_MS);
    }
  }, CALM_MS);
}

function live(state, text) {
  byId("live").className = state;
  byId("live").textContent = text;
}

function happened(message) {
  const event = JSON.parse(message.data);
  if (event.seq <= newest) return;
  newest = event.seq;
  for (const [name, , after] of event.body.moved ?? []) {
    const row = nodes.get(name);
    if (row) {
      row[1] = after;
      row[2] = Date.parse(event.at) / 1000;
    }
  }
  if (event.body.moved) {
    showStates();
    showNodes();
  }
  if (event.kind !== "timer_fired") {
    byId("events").prepend(eventItem(event));
    while (byId("events").childElementCount > 40) byId("events").lastChild.remove();
  }
  refreshSoon();
}

function follow() {
  const stream = new EventSource(`/v1/events?after=${newest}`);
  for (const kind of Object.keys(WORDS)) stream.addEventListener(kind, happened);
  stream.addEventListener("open", () => live("on", "live"));
  stream.addEventListener("error", () => {
    live("off", "connection lost; trying again");
    if (stream.readyState === EventSource.CLOSED) {
      setTimeout(begin, CALM_MS);
    }
  });
}

async function begin() {
  try {
    await refresh();
    follow();
  } catch {
    live("off", "no answer; trying again");
    setTimeout(begin, CALM_MS);
  }
}

byId("filter").addEventListener("input", () => {
  rows = ROWS;
  showNodes();
});
byId("more").addEventListener("click", () => {
  rows += ROWS;
  showNodes();
});
byId("logout").addEventListener("click", async () => {
  await fetch("/session", { method: "DELETE" });
  location.assign("/login");
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
    event.preventDefault();
    byId("filter").focus();
  }
});
setInterval(refreshSoon, 30000);
begin();
