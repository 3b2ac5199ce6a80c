(() => {
  "use strict";
  const root = document.currentScript.parentElement;
  const canvas = root.querySelector("canvas"), pen = canvas.getContext("2d");
  const tip = root.querySelector(".gantt-tip"), said = root.querySelector("output"), input = root.querySelector("input");
  const choice = root.querySelector("select"), legend = root.querySelector(".legend");
  let data, runs = 0, span = 1, all = 1, boxes = 0, start, job, length, of, low, count;

  // Runs and boxes as columns: what is drawn is looked through whole at each picture.
  function columns(given) {
    data = given;
    runs = data.start.length; boxes = data.low.length; span = Math.max(1, data.horizon - data.begin); all = data.node_count;
    start = new Float64Array(runs); job = new Float64Array(runs); of = new Int32Array(boxes);
    low = Int32Array.from(data.low); count = Int32Array.from(data.count); length = Float64Array.from(data.length);
    for (let run = 0, box = 0, at = 0, number = 0; run < runs; run++) {
      start[run] = at += data.start[run];
      job[run] = number += data.job[run];
      for (let k = 0; k < data.boxes[run]; k++) of[box++] = run;
    }
  }
  columns(JSON.parse(root.querySelector("script[type='application/json']").textContent));

  const view = { t0: 0, t1: span, n0: 0, n1: all };
  let found = [], place = -1, hovered = -1, wide = 0, high = 0, due = 0, colours = {}, coloured = null;
  // The margins of the page's plots (drawing.py), so that the time axes line up.
  const foot = 22, broad = matchMedia("(min-width: 44.01rem), print");
  let left = 52, right = 0, isChosen = false;

  // Colours: what they say is chosen; the legend counts.
  function paint() {
    const wanted = isChosen ? choice.value : ganttColours.first(data), names = ganttColours.choices(data);
    choice.replaceChildren(...Object.entries(names).map(([value, text]) => new Option(text, value)));
    choice.value = wanted in names ? wanted : "class";
    coloured = ganttColours.grouping(data, choice.value, colours.lease);
    legend.replaceChildren(...coloured.groups.flatMap(({ name, colour }, group) => {
      if (!coloured.counts[group]) return [];
      const item = document.createElement("li"), swatch = document.createElement("i"), count = document.createElement("b");
      swatch.style.background = colour;
      count.textContent = coloured.counts[group].toLocaleString("en").replaceAll(",", "\u202f");
      item.append(swatch, name, count);
      return [item];
    }));
  }

  function look() {
    const style = getComputedStyle(root), value = (name) => style.getPropertyValue(name).trim();
    colours = {
      ink: value("--ink"), faint: value("--faint"), grid: value("--grid"), accent: value("--accent"), lease: value("--od-alloc"),
    };
    paint();
    const ratio = devicePixelRatio || 1, size = canvas.getBoundingClientRect();
    wide = size.width; high = size.height;
    [left, right] = broad.matches ? [wide * 0.68 / 10.4, wide * 0.18 / 10.4] : [wide * 0.68 / 4.6, wide * 0.18 / 4.6];
    canvas.width = Math.round(wide * ratio); canvas.height = Math.round(high * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  const x = (time) => left + (time - view.t0) / (view.t1 - view.t0) * (wide - left - right);
  const y = (node) => (high - foot) * (1 - (node - view.n0) / (view.n1 - view.n0));
  const time = (px) => view.t0 + (px - left) / (wide - left - right) * (view.t1 - view.t0);
  const nodeAt = (py) => view.n0 + (1 - py / (high - foot)) * (view.n1 - view.n0);

  function draw() {
    due = 0;
    announceRange();
    pen.clearRect(0, 0, wide, high);
    pen.font = "12px system-ui, sans-serif";
    axes();
    pen.save();
    pen.beginPath(); pen.rect(left, 0, wide - left - right, high - foot); pen.clip();
    const per = (high - foot) / (view.n1 - view.n0), gap = per > 6 ? 1 : 0;
    const scale = (wide - left - right) / (view.t1 - view.t0);
    // By colour, so that the pen changes it a dozen times and not at every box.
    const groups = coloured.groups.map(() => []);
    for (let box = 0; box < boxes; box++) {
      const run = of[box];
      if (start[run] > view.t1 || start[run] + length[run] < view.t0 || low[box] > view.n1 || low[box] + count[box] < view.n0) continue;
      groups[coloured.of[run]].push(box);
    }
    groups.forEach((group, k) => {
      pen.fillStyle = coloured.groups[k].colour;
      for (const box of group) {
        const run = of[box], from = left + (start[run] - view.t0) * scale;
        pen.fillRect(from, y(low[box] + count[box]), Math.max(0.7, length[run] * scale - (length[run] * scale > 4 ? 1 : 0)), Math.max(0.7, count[box] * per - gap));
      }
    });
    const marked = found.length ? new Set(found) : null;
    for (let box = 0; (marked || hovered >= 0) && box < boxes; box++) {
      if (!(marked && marked.has(of[box])) && of[box] !== hovered) continue;
      const run = of[box];
      pen.strokeStyle = colours.ink; pen.lineWidth = 2;
      pen.strokeRect(x(start[run]), y(low[box] + count[box]), Math.max(2, length[run] * scale), Math.max(2, count[box] * per));
    }
    pen.restore();
  }
  // The other plots of a page show the same time (time_zoom.js).
  let announced = [0, span];
  function announceRange() {
    if (announced[0] === view.t0 && announced[1] === view.t1) return;
    announced = [view.t0, view.t1];
    canvas.dispatchEvent(new CustomEvent("timerange", { detail: announced.map((at) => data.begin + at) }));
  }
  function show(from_s, to_s) { view.t0 = from_s - data.begin; view.t1 = to_s - data.begin; bounded(); }
  const redraw = () => { if (!due) due = requestAnimationFrame(draw); };

  function axes() {
    const steps = [1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2419200, 7257600, 31536000];
    const wanted = (view.t1 - view.t0) / Math.max(2, (wide - left - right) / 110);
    const step = steps.find((each) => each >= wanted) || steps[steps.length - 1];
    pen.strokeStyle = colours.grid; pen.fillStyle = colours.faint; pen.lineWidth = 1;
    pen.textAlign = "center"; pen.textBaseline = "bottom";
    for (let at = Math.ceil((view.t0 + data.begin) / step) * step - data.begin; at <= view.t1; at += step) {
      const px = Math.round(x(at)) + 0.5;
      pen.beginPath(); pen.moveTo(px, 0); pen.lineTo(px, high - foot + 4); pen.stroke();
      if (px > left + 20 && px < wide - right) pen.fillText(clock(at + data.begin, step), px, high - 1);
    }
    pen.textAlign = "right"; pen.textBaseline = "middle";
    const rows = view.n1 - view.n0, every = Math.max(1, Math.ceil(rows / ((high - foot) / 22)));
    for (let node = Math.ceil(view.n0); node < view.n1; node++) {
      if (node % every || node < 0 || node >= all) continue;
      pen.fillText(name(node), left - 6, y(node + 0.5), left - 8);
    }
  }
  const name = (node) => data.names[node] || String(node);
  const two = (value) => String(value).padStart(2, "0");
  function clock(at, step) {
    const days = Math.floor(at / 86400), rest = at - days * 86400;
    const hours = `${two(Math.floor(rest / 3600))}:${two(Math.floor(rest / 60) % 60)}${step < 60 ? ":" + two(Math.floor(rest % 60)) : ""}`;
    if (step >= 86400) return `${days} d`;
    return days && rest < step ? `${days} d` : days && step < 60 ? `${days} d ${hours}` : hours;
  }
  function duration(seconds) {
    const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const first = parts.findIndex(([size]) => seconds >= size);
    if (first < 0) return "0 s";
    const [big, unit] = parts[first], rest = parts[first + 1], much = Math.floor(seconds / big), more = rest ? Math.floor((seconds % big) / rest[0]) : 0;
    return `${much} ${unit}` + (more ? ` ${more} ${rest[1]}` : "");
  }
  function about(run) {
    const at = data.begin + start[run], what = data.outcomes[data.outcome[run]];
    const whose = ["user", "queue"].filter((key) => data[key].length && data[key][run] >= 0).map((key) => `, ${key} ${data[key][run]}`).join("");
    return `${data.kind[run] ? "lease" : "job"} ${job[run]}${whose}, ${data.nodes[run]} node${data.nodes[run] === 1 ? "" : "s"}\n` +
      `start ${Math.floor(at / 86400)} d ${clock(at % 86400, 1)}, ran ${duration(length[run])}` +
      `${data.wait[run] >= 0 ? ", waited " + duration(data.wait[run]) : ""}${what ? "\n" + what : ""}`;
  }

  // Moving and zooming.
  function bounded() {
    const least = 10, some = Math.min(all, 2);
    let size = Math.min(span, Math.max(least, view.t1 - view.t0));
    view.t0 = Math.min(Math.max(0, view.t0), span - size); view.t1 = view.t0 + size;
    size = Math.min(all, Math.max(some, view.n1 - view.n0));
    view.n0 = Math.min(Math.max(0, view.n0), all - size); view.n1 = view.n0 + size;
    redraw();
  }
  function zoom(factor, at = (view.t0 + view.t1) / 2, node = null, nodes = false) {
    if (!nodes) { view.t0 = at - (at - view.t0) * factor; view.t1 = at + (view.t1 - at) * factor; }
    if (nodes || node !== null) {
      const middle = node === null ? (view.n0 + view.n1) / 2 : node;
      view.n0 = middle - (middle - view.n0) * factor; view.n1 = middle + (view.n1 - middle) * factor;
    }
    bounded();
  }
  function move(share, rows = 0) {
    const by = share * (view.t1 - view.t0), up = rows * (view.n1 - view.n0);
    view.t0 += by; view.t1 += by; view.n0 += up; view.n1 += up;
    bounded();
  }
  function everything() { Object.assign(view, { t0: 0, t1: span, n0: 0, n1: all }); redraw(); }

  function go(to) {
    if (!found.length) return;
    place = (to + found.length) % found.length;
    const run = found[place], size = Math.max(length[run] * 3, Math.min(view.t1 - view.t0, span / 50));
    const middle = start[run] + length[run] / 2;
    view.t0 = middle - size / 2; view.t1 = middle + size / 2; view.n0 = 0; view.n1 = all;
    bounded();
    said.textContent = (found.length > 1 ? `run ${place + 1} of ${found.length}: ` : "") + about(run).replace(/\n/g, ", ");
  }
  function search() {
    const text = input.value.trim(), wanted = Number(text);
    found = [];
    if (text) for (let run = 0; run < runs; run++) if (job[run] === wanted) found.push(run);
    if (found.length) go(0); else { said.textContent = text ? `no run of job ${text} is drawn` : ""; redraw(); }
  }

  function under(px, py) {
    const at = time(px), node = Math.floor(nodeAt(py)), near = (view.t1 - view.t0) / (wide - left - right);
    if (px < left || px > wide - right || py > high - foot) return -1;
    for (let box = boxes - 1; box >= 0; box--) {
      const run = of[box];
      if (node >= low[box] && node < low[box] + count[box] && at >= start[run] && at <= start[run] + Math.max(near, length[run])) return run;
    }
    return -1;
  }
  function hover(px, py) {
    const run = under(px, py);
    if (run !== hovered) { hovered = run; redraw(); }
    tip.hidden = run < 0;
    if (run < 0) return;
    tip.textContent = about(run);
    const isRight = px > wide / 2;
    tip.style.left = isRight ? "" : `${px + 14}px`; tip.style.right = isRight ? `${wide - px + 14}px` : "";
    tip.style.top = `${canvas.offsetTop + Math.min(py + 12, high - 70)}px`;
  }

  const fingers = new Map();
  let apart = 0;
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); fingers.set(event.pointerId, at(event)); apart = 0; });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => { fingers.delete(event.pointerId); apart = 0; });
  canvas.addEventListener("pointerleave", () => { hovered = -1; tip.hidden = true; redraw(); });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = at(event), before = fingers.get(event.pointerId);
    if (!before) { hover(px, py); return; }
    fingers.set(event.pointerId, [px, py]);
    if (fingers.size === 2) {
      const [one, other] = [...fingers.values()], now = Math.hypot(one[0] - other[0], one[1] - other[1]);
      if (apart > 0 && now > 0) zoom(apart / now, time((one[0] + other[0]) / 2));
      apart = now;
    } else {
      move((before[0] - px) / (wide - left - right), (py - before[1]) / (high - foot));
    }
  });
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return; // the page scrolls
    event.preventDefault();
    const [px, py] = at(event), by = event.deltaY || event.deltaX;
    zoom(Math.exp(Math.sign(by) * 0.2), time(px), event.shiftKey ? nodeAt(py) : null, event.shiftKey);
  }, { passive: false });
  const keys = {
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), ArrowUp: () => move(0, 0.2), ArrowDown: () => move(0, -0.2),
    "+": () => zoom(0.67), "=": () => zoom(0.67), "-": () => zoom(1.5), "0": everything, Home: everything, Escape: everything,
    n: () => go(place + 1), p: () => go(place - 1), "/": () => input.focus(),
  };
  canvas.addEventListener("keydown", (event) => {
    const action = !event.ctrlKey && !event.metaKey && !event.altKey && keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (action) { event.preventDefault(); action(); }
  });
  input.addEventListener("input", search);
  choice.addEventListener("change", () => { isChosen = true; paint(); redraw(); });
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); go(place + (event.shiftKey ? -1 : 1)); } });
  for (const button of root.querySelectorAll("button")) {
    button.addEventListener("click", () => ({ in: () => zoom(0.5), out: () => zoom(2), all: everything })[button.dataset.do]());
  }
  new ResizeObserver(look).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", look);
  for (const event of ["beforeprint", "afterprint"]) addEventListener(event, look);
  // A run that goes on: what is shown stays where it is, and all stays all.
  function load(given) {
    const before = span, nodes = all, wanted = found.length ? job[found[0]] : NaN;
    columns(given);
    paint();
    if (view.t0 === 0 && view.t1 === before) view.t1 = span;
    if (view.n0 === 0 && view.n1 === nodes) view.n1 = all;
    found = []; hovered = -1; tip.hidden = true;
    for (let run = 0; run < runs; run++) if (job[run] === wanted) found.push(run);
    redraw();
  }
  // For pages that follow a run, and for tests: what is shown, and how long a picture takes.
  canvas.gantt = { view, show, get runs() { return runs; }, get boxes() { return boxes; }, draw, load, ends: () => [x(0), x(span)], under: (px, py) => { const run = under(px, py); return run < 0 ? null : job[run]; } };
})();
