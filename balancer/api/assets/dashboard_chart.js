"use strict";
// The pools of the last day, or since the service began, as stacked steps with axes.

const SVG = "http://www.w3.org/2000/svg";
const CHART = { height: 190, left: 44, right: 8, top: 10, bottom: 24 };
const TICKS_S = [10, 30, 60, 300, 900, 1800, 3600, 7200, 10800, 14400, 21600];

function part(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const LABEL_PX = { minutes: 60, seconds: 84 }; // with AM or PM

const hasSeconds = (step_s) => step_s < 60;
const labelWidth = (step_s) => (hasSeconds(step_s) ? LABEL_PX.seconds : LABEL_PX.minutes);

// Times of day at whole steps of the local clock on an axis that is so wide, with room for each: one at an end is moved
// by up to half its width.
function timeTicks(start_s, end_s, width_px) {
  const px_per_s = width_px / (end_s - start_s);
  const step_s = TICKS_S.find((each) => each * px_per_s >= 1.5 * labelWidth(each)) ?? 43200;
  const zone_s = new Date(start_s * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let at_s = Math.ceil((start_s - zone_s) / step_s) * step_s + zone_s; at_s <= end_s; at_s += step_s) found.push(at_s);
  const isShort = found.length < 2;
  const shown_s = isShort ? 1 : step_s;
  const form = { hour: "2-digit", minute: "2-digit", ...(hasSeconds(shown_s) ? { second: "2-digit" } : {}) };
  return (isShort ? [start_s, end_s] : found).map((at_s) => ({
    at_s,
    text: new Date(at_s * 1000).toLocaleTimeString([], form),
    half_px: labelWidth(shown_s) / 2,
  }));
}

function nodeTicks(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step = Math.max(1, [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}

function drawPools(svg, pools, order, meaning) {
  const width = Math.max(240, svg.clientWidth || svg.parentElement.clientWidth);
  const { height, left, right, top, bottom } = CHART;
  const end_s = Math.max(pools.end_s, pools.start_s + 1);
  const most = Math.max(1, ...pools.steps.map(([, counts]) => counts.reduce((sum, count) => sum + count, 0)));
  const x = (at_s) => left + ((width - left - right) * (at_s - pools.start_s)) / (end_s - pools.start_s);
  const y = (count) => height - bottom - ((height - top - bottom) * count) / most;
  const drawn = [];
  for (const count of nodeTicks(most)) {
    drawn.push(part("line", { x1: left, x2: width - right, y1: y(count), y2: y(count), class: "grid" }));
    drawn.push(part("text", { x: left - 6, y: y(count) + 4, "text-anchor": "end" }, String(count)));
  }
  const below = pools.steps.map(() => 0);
  const shown = order.filter((state) => pools.steps.some(([, counts]) => counts[pools.states.indexOf(state)]));
  for (const state of shown) {
    const upper = [];
    const lower = [];
    pools.steps.forEach(([at_s, counts], place) => {
      const [from, to] = [x(at_s), x(place + 1 < pools.steps.length ? pools.steps[place + 1][0] : end_s)];
      lower.unshift(`${to},${y(below[place])}`, `${from},${y(below[place])}`);
      below[place] += counts[pools.states.indexOf(state)];
      upper.push(`${from},${y(below[place])}`, `${to},${y(below[place])}`);
    });
    const shape = part("polygon", { points: [...upper, ...lower].join(" "), class: state });
    shape.append(part("title", {}, meaning[state]));
    drawn.push(shape);
  }
  for (const { at_s, text, half_px } of timeTicks(pools.start_s, end_s, width - left - right)) {
    drawn.push(part("line", { x1: x(at_s), x2: x(at_s), y1: height - bottom, y2: height - bottom + 4, class: "tick" }));
    const at = Math.min(Math.max(x(at_s), half_px), width - half_px);
    drawn.push(part("text", { x: at, y: height - 6, "text-anchor": "middle" }, text));
  }
  drawn.push(part("line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "tick" }));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...drawn);
}
