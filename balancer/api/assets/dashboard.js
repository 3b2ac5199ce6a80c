"use strict";
// The dashboard: asks once, then follows the event stream; what changed is asked for again at most every 2 s.

const ROWS = 200;
const CALM_MS = 2000;
const byId = (id) => document.getElementById(id);

let nodes = new Map();
let wanted = "";
let rows = ROWS;
let newest = 0;
let due = null;
let lead_ms = 0;
let pools = null;

// The service's clock, which in an emulation is not the browser's.
const now_ms = () => Date.now() + lead_ms;

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

function ago(at_ms) {
  const time = element("time", relative(at_ms, now_ms()));
  time.dateTime = new Date(at_ms).toISOString();
  time.title = when(at_ms);
  return time;
}

const agoCell = (at_ms) => {
  const cell = element("td");
  cell.append(ago(at_ms));
  return cell;
};

function eventItem(event) {
  const item = element("li");
  item.append(ago(Date.parse(event.at)), element("span", sentence(event)));
  item.title = `${event.seq} ${event.kind}`;
  return item;
}

const answered = (system) => (system.age_s === null ? "never answered" : `answered ${relative(now_ms() - system.age_s * 1000, now_ms())}`);

function showStatus(status) {
  const total = Object.values(status.nodes).reduce((sum, count) => sum + count, 0);
  const systems = [status.batch, status.cloud].filter(Boolean).map((system) => `${system.name} ${system.error ? `unreachable, ${answered(system)}` : answered(system)}`);
  byId("summary").textContent = [plural(total, "node"), `algorithm ${status.algorithm}`, ...systems].join(" · ");
  byId("problem").hidden = !status.problem;
  byId("problem").textContent = status.problem ? `Not ready: ${status.problem}` : "";
  byId("frozen").hidden = !status.frozen;
  byId("frozen").textContent = status.frozen ? `Frozen by ${status.frozen.by}: ${status.frozen.reason}. No node moves.` : "";
}

function tile(id, name, value, remark) {
  const made = element("div");
  const shown = element("dd");
  shown.id = `tile-${id}`;
  shown.append(value);
  made.append(element("dt", name), shown, element("dd", remark, "remark"));
  return made;
}

const nodeHours = (hours) => `${hours < 100 ? Number(hours.toFixed(1)) : Math.round(hours)} node-h`;

function headroomRemark(room) {
  const found = [[room.reserve, "in reserve"], [room.idle, "idle"], [room.ending, "whose jobs must end"]].filter(([count]) => count).map(([count, words]) => `${count} ${words}`);
  if (room.wanted) found.push(`less ${room.wanted} that requests wait for`);
  return found.join(", ") || "none in reserve, none idle";
}

function showTiles(status, today, week) {
  const reading = status.batch;
  const past = (age_s) => (age_s === null ? "never" : ago(now_ms() - age_s * 1000));
  const room = status.headroom;
  byId("tiles").replaceChildren(
    tile("headroom", `could be granted within ${duration(room.within_s)}`, plural(room.nodes, "node"), headroomRemark(room)),
    tile("granted", "granted today", plural(today.granted, "request"), `${plural(today.nodes_granted, "node")}; this week ${plural(week.granted, "request")}`),
    tile("refused", "refused today", `${today.rejected} of ${today.requests}`, `this week ${week.rejected} of ${week.requests}`),
    tile("lent", "lent today", nodeHours(today.lent_node_h), `this week ${nodeHours(week.lent_node_h)}`),
    tile("quarantined", "quarantined", plural(status.nodes.QUARANTINED, "node"), status.nodes.QUARANTINED ? Object.keys(status.quarantined).slice(0, 4).join(" ") : "nothing to settle"),
    tile("asleep", "asleep", plural(status.asleep, "node"), `of ${status.nodes.DOWN} down`),
    tile("hook", "last hook", past(status.last_hook_s), status.last_hook_s === null ? "none since the start" : "job start or end"),
    tile("reading", "last reading", past(reading.age_s), reading.error ?? reading.name),
  );
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
  fill("nodes", found.slice(0, rows).map(([name, state, since, request, job, end, remark]) => {
    const cell = element("td");
    cell.append(element("span", undefined, `key ${state}`), MEANING[state] ?? state);
    cell.title = state;
    return [name, cell, agoCell(since * 1000), request, job, end === null ? "" : agoCell(end * 1000), remark];
  }), "none");
  byId("more").hidden = found.length <= rows;
}

function showPools() {
  if (!pools) return;
  const isDay = pools.end_s - pools.start_s > 86000;
  byId("h-pools").textContent = isDay ? "Pools over the last day" : "Pools since the service began";
  byId("chart-text").textContent = `Nodes by state, from ${when(pools.start_s * 1000)} to now.`;
  drawPools(byId("chart"), pools, Object.keys(MEANING), MEANING);
}

// Local midnight, and that of Monday.
function begins(at_ms) {
  const today = new Date(at_ms);
  today.setHours(0, 0, 0, 0);
  const week = new Date(today);
  week.setDate(week.getDate() - ((week.getDay() + 6) % 7));
  return [today, week];
}

const usage = (start) => ask(`/v1/usage?start=${encodeURIComponent(new Date(Math.max(0, start)).toISOString())}`);

async function refresh() {
  const [now, found, latest] = await Promise.all([ask("/dashboard/now"), ask("/dashboard/nodes"), ask("/dashboard/pools")]);
  lead_ms = Date.parse(now.status.now) - Date.now();
  const [today, week] = await Promise.all(begins(now_ms()).map(usage));
  nodes = new Map(found.nodes.map((row) => [row[0], row]));
  pools = latest;
  showStatus(now.status);
  showTiles(now.status, today, week);
  fill("waits", now.waiting.map((wait) => [wait.id, `${wait.reserved} of ${wait.count}`, agoCell(Date.parse(wait.submitted_at)), wait.why, wait.end, agoCell(Date.parse(wait.deadline_at))]), "nobody waits");
  fill("reserves", now.reserves.map((each) => [each.id, String(each.count), String(each.used), agoCell(Date.parse(each.by)), agoCell(Date.parse(each.kept_until)), each.every ? `${each.every} ${each.zone}` : ""]), "none");
  byId("events").replaceChildren(...now.events.map(eventItem));
  newest = now.status.newest_event;
  showStates();
  showNodes();
  showPools();
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
  if (!isQuiet(event)) {
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
byId("logout")?.addEventListener("click", async () => {
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
setInterval(() => {
  for (const time of document.querySelectorAll("time")) time.textContent = relative(Date.parse(time.dateTime), now_ms());
}, 5000);
addEventListener("resize", showPools);
begin();
