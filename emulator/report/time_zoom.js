(() => {
  "use strict";
  // All plots whose x axis is the run's time, and the schedule, show the same part of it.
  const plots = [...document.querySelectorAll("svg[data-time]")].map((svg) => {
    const numbers = (text) => text.split(" ").map(Number);
    const [unit, unit_s] = svg.dataset.unit.split(" ");
    return { svg, unit, unit_s: Number(unit_s), ends: numbers(svg.dataset.time), frame: numbers(svg.dataset.frame),
      shapes: svg.querySelector(".shapes"), ticks: svg.querySelector(".ticks"), before: svg.querySelector(".ticks").innerHTML };
  });
  const bar = document.querySelector(".time-bar"), canvas = document.querySelector(".gantt canvas");
  if (!plots.length || !bar) return;
  const all = plots[0].ends, LEAST_S = 10, NS = "http://www.w3.org/2000/svg";
  let [from, to] = all;

  // Lines and areas are stretched; marks and texts keep their shape and move.
  function stretch(plot, scale, shift) {
    for (const shape of plot.shapes.querySelectorAll("path, circle, text")) {
      if (shape.tagName === "path" && !shape.classList.contains("mark")) {
        shape.setAttribute("transform", `matrix(${scale} 0 0 1 ${shift} 0)`);
        continue;
      }
      const x = parseFloat(shape.getAttribute("cx") ?? shape.getAttribute("x") ?? shape.getAttribute("d").slice(1));
      shape.setAttribute("transform", `translate(${x * scale + shift - x} 0)`);
    }
  }
  function clip(plot, place) {
    if (plot.shapes.hasAttribute("clip-path")) return;
    const [left, right, floor] = plot.frame, path = document.createElementNS(NS, "clipPath"), box = document.createElementNS(NS, "rect");
    path.id = `time-${place}`;
    for (const [name, value] of Object.entries({ x: left, y: 0, width: right - left, height: floor + 1 })) box.setAttribute(name, value);
    path.append(box);
    plot.svg.prepend(path);
    plot.shapes.setAttribute("clip-path", "url(" + `#${path.id})`);
  }
  function tick(plot, x) {
    const [, , floor] = plot.frame, wanted = (to - from) / plot.unit_s / (plot.svg.viewBox.baseVal.width < 500 ? 5 : 8);
    const power = 10 ** Math.floor(Math.log10(wanted)), step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= wanted);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), found = [];
    for (let count = Math.ceil(from / plot.unit_s / step - 1e-9); count * step * plot.unit_s <= to; count++) {
      const px = x(count * step * plot.unit_s).toFixed(1);
      found.push(`<path d="M${px} ${floor}v3.5" style="stroke:var(--grid);stroke-width:0.7"/><text x="${px}" y="${floor + 14.8}" text-anchor="middle" style="font-size:11px;fill:var(--faint)">${(count * step).toFixed(decimals)}</text>`);
    }
    plot.ticks.innerHTML = found.join("");
  }
  const isAll = () => from <= all[0] && to >= all[1];
  function draw() {
    bar.classList.toggle("zoomed", !isAll());
    plots.forEach((plot, place) => {
      plot.svg.classList.toggle("zoomed", !isAll());
      if (isAll()) {
        plot.ticks.innerHTML = plot.before;
        plot.shapes.removeAttribute("clip-path");
        plot.svg.querySelector("clipPath")?.remove();
        for (const shape of plot.shapes.querySelectorAll("[transform]")) shape.removeAttribute("transform");
        return;
      }
      const [left, right] = plot.frame, x = (time) => left + (time - from) / (to - from) * (right - left);
      const scale = (plot.ends[1] - plot.ends[0]) / (to - from);
      clip(plot, place);
      stretch(plot, scale, x(plot.ends[0]) - left * scale);
      tick(plot, x);
    });
    const { unit, unit_s } = plots[0], digits = Math.max(0, 2 - Math.floor(Math.log10((to - from) / unit_s)));
    const text = (time) => (time / unit_s).toFixed(digits);
    bar.querySelector("output").textContent = isAll() ? "Drag over a plot to zoom all in time; double-click: all." : `${text(from)} to ${text(to)} ${unit}`;
  }
  function follow(begin, end) {
    [from, to] = [Math.max(all[0], begin), Math.min(all[1], end)];
    draw();
  }
  function show(begin, end) {
    const size = Math.min(all[1] - all[0], Math.max(LEAST_S, end - begin)), middle = (begin + end) / 2;
    from = Math.min(Math.max(all[0], middle - size / 2), all[1] - size);
    to = from + size;
    draw();
    if (canvas) canvas.gantt.show(from, to);
  }
  const zoom = (factor) => show((from + to) / 2 - (to - from) / 2 * factor, (from + to) / 2 + (to - from) / 2 * factor);
  const move = (share) => show(from + share * (to - from), to + share * (to - from));
  const actions = { in: () => zoom(0.5), out: () => zoom(2), back: () => move(-0.5), on: () => move(0.5), all: () => show(...all) };
  for (const button of bar.querySelectorAll("button")) button.addEventListener("click", actions[button.dataset.do]);

  for (const { svg, frame: [left, right, floor] } of plots) {
    let begun = null, box = null;
    const at = (event) => {
      const place = svg.getBoundingClientRect(), x = (event.clientX - place.left) / place.width * svg.viewBox.baseVal.width;
      return Math.min(right, Math.max(left, x));
    };
    const time = (x) => from + (x - left) / (right - left) * (to - from);
    const end = () => { begun = null; box?.remove(); box = null; };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      svg.setPointerCapture(event.pointerId);
      begun = at(event);
      box = document.createElementNS(NS, "rect");
      box.setAttribute("style", "fill:var(--accent);fill-opacity:.15");
      svg.append(box);
    });
    svg.addEventListener("pointermove", (event) => {
      if (begun === null) return;
      const x = at(event);
      for (const [name, value] of Object.entries({ x: Math.min(x, begun), y: 0, width: Math.abs(x - begun), height: floor })) box.setAttribute(name, value);
    });
    svg.addEventListener("pointerup", (event) => {
      if (begun === null) return;
      const [first, last] = [begun, at(event)].sort((one, other) => one - other);
      end();
      if (last - first > 4) show(time(first), time(last));
    });
    svg.addEventListener("pointercancel", end);
    svg.addEventListener("dblclick", actions.all);
  }
  if (canvas) canvas.addEventListener("timerange", ({ detail }) => follow(...detail));
  bar.hidden = false;
  draw();
})();
