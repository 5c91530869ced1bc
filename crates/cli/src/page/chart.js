// Bars in SVG, with values at the pointer and a table beside them.
//
// What is drawn comes in as plain values; nothing here knows what they mean. Text goes in by textContent alone.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; of a list of children, absent ones are passed over. */
function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

const count = (number) => Number(number).toLocaleString("en-US");
const real = (number) => (Number.isFinite(number) ? Number(number.toPrecision(4)).toString() : String(number));

function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let size = number;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${Number.isInteger(size) ? size : size.toFixed(1)} ${units[unit]}`;
}

// Each series has a colour and a pattern, so that the colour is never the only sign.
const PATTERNS = [
  [],
  ["M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2"],
  ["M3,3 h0.01"],
  ["M-1,5 l2,2 M0,0 l6,6 M5,-1 l2,2"],
  ["M0,3 h6"],
  ["M3,0 v6"],
  ["M0,3 h6 M3,0 v6"],
];

const paints = new Map();

/** What to fill a colour's pattern with. Patterns are made when they are first asked for. */
function paint(colour, pattern) {
  const id = `paint-${colour}-${pattern}`;
  if (!paints.has(id)) {
    const lines = PATTERNS[pattern].map((d) =>
      svg("path", { d, stroke: "var(--card)", "stroke-width": pattern === 2 ? 2.2 : 1.2, "stroke-linecap": "round" }));
    document.getElementById("patterns").append(
      svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
        svg("rect", { width: 6, height: 6, fill: `var(--${colour})` }), lines));
    paints.set(id, `url(#${id})`);
  }
  return paints.get(id);
}

/** Round numbers of a range, about `most` of them at most. */
function ticks(from, to, most, whole) {
  const rough = (to - from) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  if (whole) step = Math.max(1, Math.round(step));
  const places = [];
  for (let at = Math.ceil(from / step); at * step <= to + step * 1e-9; at += 1) places.push(at * step);
  return places;
}

/**
 * A figure of stacked bars.
 *
 * `series`: [{ name, colour, pattern }]; `bars`: [{ from, name, values }], values in the order of the series; `width`: of a
 * bar, in units of the horizontal axis. `isBeside` draws series next to each other, `isLog` the vertical axis as powers of
 * ten, `marks` are [{ at, name }] of the horizontal axis, which begins at `start` where that is given. `words` writes a
 * value, `place` a place of the horizontal axis.
 */
function chart(options) {
  const { id, title, caption, series } = options;
  const drawing = svg("svg", { role: "img", "aria-label": `${title}. ${caption}` });
  const shown = series.length > 1
    ? el("ul", { class: "legend" }, series.map((one) => el("li", {}, swatch(one), one.name)))
    : null;
  const figure = el("figure", { id }, el("h3", {}, title), shown, drawing, el("figcaption", {}, caption), table(options));
  let drawn = 0;
  new ResizeObserver(([entry]) => {
    const room = Math.floor(entry.contentRect.width);
    if (room > 0 && room !== drawn) draw(drawing, options, (drawn = room));
  }).observe(figure);
  return figure;
}

function swatch({ colour, pattern }) {
  return svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" },
    svg("rect", { width: 12, height: 12, rx: 2, fill: paint(colour, pattern) }));
}

function draw(drawing, options, room) {
  const { bars, width, isBeside, isLog, marks = [], words = count, place = count, xLabel, yLabel } = options;
  const [height, left, right, top, bottom] = [220, 60, 8, marks.length ? 34 : 20, 40];
  const [wide, high] = [room - left - right, height - top - bottom];
  const edges = [...(options.start === undefined ? [] : [options.start]), ...bars.flatMap((bar) => [bar.from, bar.from + width]), ...marks.map((mark) => mark.at)];
  const [first, last] = edges.length ? [Math.min(...edges), Math.max(...edges)] : [0, 1];
  const x = (at) => left + ((at - first) / (last - first || 1)) * wide;
  const heights = bars.map((bar) => (isBeside ? Math.max(...bar.values) : sum(bar.values)));
  const most = Math.max(1, ...heights);
  // On a scale of powers of ten a bar of 1 stands a little above the axis, and nothing on it.
  const share = isLog ? (value) => (value < 1 ? 0 : (Math.log10(value) + 0.3) / (Math.log10(most) + 0.3)) : (value) => value / most;
  const y = (value) => top + high - share(value) * high;
  const levels = isLog
    ? Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, power) => 10 ** power)
    : (options.levels ?? ticks)(0, most, 4, true);
  // Ticks of whole numbers stand below the middle of bars of width 1.
  const shift = options.isMiddle ? width / 2 : 0;
  const places = ticks(first, last - shift, Math.max(2, Math.floor(wide / 80)), options.isWhole);

  drawing.replaceChildren(
    ...levels.flatMap((value) => [
      svg("line", { class: value ? "grid" : "axis", x1: left, x2: room - right, y1: y(value), y2: y(value) }),
      svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, words(value)),
    ]),
    svg("line", { class: "axis", x1: left, x2: room - right, y1: y(0), y2: y(0) }),
    ...places.map((at) => svg("text", { x: x(at + shift), y: top + high + 16, "text-anchor": "middle" }, place(at))),
    svg("text", { x: left, y: 10 }, yLabel),
    svg("text", { x: room - right, y: height - 5, "text-anchor": "end" }, xLabel),
    ...bars.flatMap((bar) => pieces(bar, options, x, y)),
    ...marks.flatMap((mark) => [
      svg("line", { class: "mark", x1: x(mark.at), x2: x(mark.at), y1: top, y2: top + high }),
      svg("text", { x: x(mark.at), y: top - 6, "text-anchor": x(mark.at) > room - 50 ? "end" : "middle" }, mark.name),
    ]),
    ...bars.map((bar) => hit(bar, options, x, top, high)),
  );
  drawing.setAttribute("viewBox", `0 0 ${room} ${height}`);
  drawing.setAttribute("height", height);
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** The pieces of one bar, from the axis up, or from the left. */
function pieces(bar, { series, width, isBeside }, x, y) {
  const gap = Math.min(1, (x(bar.from + width) - x(bar.from)) * 0.15);
  const [start, end] = [x(bar.from) + gap, x(bar.from + width) - gap];
  const each = isBeside ? (end - start) / series.length : end - start;
  let below = 0;
  return bar.values.map((value, at) => {
    const [low, high] = isBeside ? [0, value] : [below, below + value];
    below += value;
    if (!(value > 0)) return null;
    const { colour, pattern, name } = series[at];
    const tall = Math.max(0.75, y(low) - y(high));
    return svg("rect", {
      class: "bar", "data-series": name, x: start + (isBeside ? at * each : 0), y: y(low) - tall,
      width: Math.max(0.75, each), height: tall, fill: paint(colour, pattern),
    });
  }).filter((piece) => piece !== null);
}

/** Where the pointer finds a bar, however low it is. */
function hit(bar, { series, width, words = count }, x, top, high) {
  const named = series.map((one, at) => `${one.name}: ${words(bar.values[at])}`).filter((_, at) => bar.values[at] > 0);
  const rect = svg("rect", { class: "hit", x: x(bar.from), y: top, width: Math.max(1, x(bar.from + width) - x(bar.from)), height: high });
  const tip = [bar.name, ...named].join("\n");
  rect.addEventListener("pointermove", (event) => showTip(tip, event));
  rect.addEventListener("pointerdown", (event) => showTip(tip, event));
  rect.addEventListener("pointerleave", hideTip);
  return rect;
}

function showTip(text, event) {
  const tip = document.getElementById("tip");
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
  tip.style.top = `${event.clientY - height - 12 < 4 ? event.clientY + 18 : event.clientY - height - 12}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}

/** The same values as a table. */
function table({ title, series, bars, words = count, xLabel }) {
  const rows = bars.map((bar) => [bar.name, ...bar.values.map(words)]);
  return folded("Table", rowsTable(title, [xLabel, ...series.map((one) => one.name)], rows));
}

function folded(name, ...children) {
  return el("details", {}, el("summary", {}, name), el("div", { class: "scroll", tabindex: 0 }, children));
}

/** A table; `words` are the columns that hold text. */
function rowsTable(caption, heads, rows, words = []) {
  const cell = (kind) => (value, at) => el(kind, words.includes(at) ? { class: "words" } : {}, value ?? "–");
  return el("table", {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, heads.map(cell("th")))),
    el("tbody", {}, rows.map((row) => (row instanceof Node ? row : el("tr", {}, row.map(cell("td")))))));
}
