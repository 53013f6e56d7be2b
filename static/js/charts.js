// Charts of a page: one time axis, one cursor, live until one scrolls back.
import { joined, range, Series, view } from "./chart-data.js";
import { options } from "./chart-look.js";
import { buildMarks, loadMarks } from "./chart-marks.js";
import { loadPast, past } from "./chart-past.js";
import { FORMATS } from "./format.js";
import { on, subscribe } from "./socket.js";
import { say } from "./strings.js";

const holder = document.querySelector("[data-charts]");
const charts = [...holder.querySelectorAll("[data-chart]")].map((figure) => ({
  figure,
  plot: figure.querySelector(".chart-plot"),
  none: figure.querySelector(".chart-none"),
  spec: JSON.parse(figure.querySelector("script").textContent),
}));
const ring = new Map(); // subject -> the last minutes, one sample a second
const subjects = [...new Set(charts.map(({ spec }) => spec.subject))];
for (const subject of subjects) ring.set(subject, new Series(1));

const RING_S = 900;
const begins = Number(holder.dataset.begins ?? 0); // what was called the same before that is not shown

// The ring where it has the time, and what is older from roll-ups.
function columns(subject, fields, from, to) {
  const found = kept(subject, fields, from, to);
  const first = found[0].findIndex((t) => t >= begins);
  return first === 0 ? found : found.map((column) => (first < 0 ? [] : column.slice(first)));
}

function kept(subject, fields, from, to) {
  if (view.window > RING_S) return past(subject).columns(fields, from, to);
  const recent = ring.get(subject);
  const since = recent.t[0] ?? Infinity;
  if (view.end === null || from >= since) return recent.columns(fields, from, to);
  return joined(past(subject).columns(fields, from, Math.min(to, since - 1)), recent.columns(fields, since, to));
}

function newestTime() {
  const times = subjects.map((subject) => ring.get(subject).t.at(-1)).filter(Boolean);
  return Math.max(Date.now() / 1000 - 2, ...times);
}

function build(chart) {
  chart.u?.destroy();
  if (!chart.unit) {
    chart.unit = document.createElement("span");
    chart.unit.className = "chart-unit";
    chart.plot.append(chart.unit);
  }
  chart.unit.textContent = chart.spec.unit;
  chart.u = new uPlot(options(chart, legend), [[], ...chart.spec.series.map(() => [])], chart.plot);
}

function legend(chart, index) {
  chart.spec.series.forEach((line, number) => {
    const column = chart.u.data[number + 1];
    const value = index === null || index === undefined ? column.at(-1) : column[index];
    const unit = { percent: " %", gib: " GiB" }[chart.spec.form] ?? "";
    const text = FORMATS[chart.spec.form](value) + (value === null || value === undefined ? "" : unit);
    const element = chart.figure.querySelector(`[data-value="${line.field}"]`);
    if (element.textContent !== text) element.textContent = text;
  });
}

export function draw() {
  const [from, to] = range(newestTime());
  for (const chart of charts) {
    const data = columns(chart.spec.subject, chart.spec.series.map((line) => line.field), from, to);
    const empty = data.slice(1).every((column) => column.every((value) => value === null));
    chart.none.hidden = !empty;
    chart.unit.hidden = empty;
    chart.u.batch(() => {
      chart.u.setData(data, false);
      chart.u.setScale("x", { min: from, max: to });
    });
    if (chart.u.cursor.idx === null || chart.u.cursor.left < 0) legend(chart, null);
    buildMarks(chart, charts[0] === chart);
  }
}

function tell() {
  for (const chart of charts) {
    const values = chart.u.data[1].filter((value) => value !== null);
    const text = chart.figure.querySelector("[data-chart-text]");
    if (!values.length) {
      text.textContent = say("chart_none", { title: chart.spec.title });
      continue;
    }
    const write = FORMATS[chart.spec.form];
    const [now, low, high] = [chart.u.data[1].at(-1), Math.min(...values), Math.max(...values)].map(write);
    text.textContent = say("chart_text", { title: `${chart.spec.title}, ${chart.unit.textContent}`, now, low, high });
  }
}

// Draws at once what is there, and again when what is missing has come.
export function show() {
  draw();
  const [from, to] = range(newestTime());
  const isBack = view.end !== null && subjects.some((subject) => from < (ring.get(subject).t[0] ?? Infinity));
  if (view.window > RING_S || isBack) loadPast(holder.dataset.history, subjects, from, to, draw);
}

charts.forEach(build);
loadMarks(holder.dataset.marks).then(draw);
subscribe(subjects, 900);
on("history", ({ subject, samples }) => {
  if (!ring.has(subject)) return;
  ring.get(subject).replace(samples);
  ready();
  draw();
  tell();
});
// the history comes with the first answer of the socket; without one there is nothing to wait for
on("state", (state) => { if (state === "lost" || state === "away") ready(); });
on("error", ready);
on("event", ({ object_kind: kind }) => { if (kind === "deployment" || kind === "replica") marksLater(); });
let marksDue = null;
function marksLater() {
  if (!holder.dataset.marks || marksDue) return;
  marksDue = setTimeout(() => { marksDue = null; loadMarks(holder.dataset.marks).then(draw); }, 3000);
}
function ready() {
  for (const { figure } of charts) figure.classList.remove("loading");
}
let ahead = false;
on("sample", ({ subject, t, values }) => {
  if (!ring.has(subject)) return;
  ring.get(subject).push(t, values);
  if (ahead || view.end !== null || view.window > 900) return;
  ahead = true;
  requestAnimationFrame(() => { ahead = false; draw(); });
});
setInterval(tell, 10000);
setInterval(() => { if (view.window > RING_S && view.end === null && !document.hidden) show(); }, 15000);
document.addEventListener("headworks:look", () => { charts.forEach(build); draw(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { charts.forEach(build); draw(); });
new ResizeObserver(() => { for (const { u, plot } of charts) u.setSize({ width: plot.clientWidth, height: plot.clientHeight }); draw(); }).observe(holder);
import("./chart-time.js");
