const ganttColours = (() => {
  "use strict";
  // What the boxes' colours say: for each choice the groups of runs, with their names, colours and counts.
  const HUES = ["#3a77b5", "#c0504d", "#5b9a4b", "#8b6bb1", "#2c9c9c", "#a8662a", "#d071a8", "#7d8a2e"];
  const OTHERS = "#8f979e", OUTCOME_HUES = ["", "#8f979e", "", "#b3261e", "#6e3b4c", "#7d8a2e", "#2c9c9c", "#8b6bb1", "#d071a8"];
  const RAMP = ["#c3d7ea", "#93bcdf", "#5f9dd0", "#3a77b5", "#8b6bb1", "#7a2f6b"];
  const WAITS = [["≤ 1 min", 60], ["≤ 15 min", 900], ["≤ 1 h", 3600], ["≤ 4 h", 14400], ["≤ 1 d", 86400], ["longer", Infinity]];
  const SIZES = [["1 node", 1], ["2–4", 4], ["5–16", 16], ["17–64", 64], ["65–256", 256], ["257 and more", Infinity]];

  function ranges(values, limits, what) {
    return { name: what, of: Int32Array.from(values, (value) => limits.findIndex(([, most]) => value <= most)),
      groups: limits.map(([name], place) => ({ name, colour: RAMP[place] })) };
  }

  // The eight with most node-time have colours of their own.
  function numbers(values, data, what) {
    const areas = new Map();
    values.forEach((value, run) => areas.set(value, (areas.get(value) ?? 0) + data.length[run] * data.nodes[run]));
    const largest = [...areas.keys()].filter((value) => value >= 0).sort((a, b) => areas.get(b) - areas.get(a) || a - b).slice(0, HUES.length);
    const places = new Map(largest.map((value, place) => [value, place])), others = areas.size - largest.length;
    return { name: what, of: Int32Array.from(values, (value) => places.get(value) ?? largest.length),
      groups: [...largest.map((value, place) => ({ name: `${what} ${value}`, colour: HUES[place] })),
        { name: areas.has(-1) && others === 1 ? "not known" : `${others} others`, colour: OTHERS }] };
  }

  // What the run was and how it ended.
  function classes(data, lease) {
    const groups = [{ name: "batch job", colour: HUES[0] }, { name: "on-demand lease", colour: lease },
      ...data.outcomes.map((name, place) => ({ name, colour: OUTCOME_HUES[place + 1] }))];
    return { name: "class", of: Int32Array.from(data.kind, (kind, run) => (data.outcomes[data.outcome[run]] ? data.outcome[run] + 2 : kind)), groups };
  }

  function choices(data) {
    return { class: "class", ...(data.user.length ? { user: "user" } : {}), ...(data.queue.length ? { queue: "queue" } : {}), wait: "wait", size: "size" };
  }

  // What says most of this run: who has leases, else whose jobs they are, else how long they waited.
  function first(data) {
    if (data.kind.some((kind) => kind)) return "class";
    return new Set(data.user).size > 1 ? "user" : "wait";
  }

  // `of`: the group of each run; `counts`: how many runs each has.
  function grouping(data, by, lease) {
    const found = { class: () => classes(data, lease), user: () => numbers(data.user, data, "user"), queue: () => numbers(data.queue, data, "queue"),
      wait: () => ranges(data.wait, WAITS, "wait"), size: () => ranges(data.nodes, SIZES, "size") }[by]();
    const counts = new Array(found.groups.length).fill(0);
    for (const group of found.of) counts[group]++;
    return { ...found, counts };
  }
  return { choices, first, grouping };
})();
