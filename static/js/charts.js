// Charts of a page: one time axis, one cursor, live until one scrolls back.
import { range, Series, view } from "./chart-data.js";
import { options } from "./chart-look.js";
import { buildMarks, loadMarks } from "./chart-marks.js";
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
const long = new Map(); // `${subject} ${window}` -> roll-ups
const subjects = [...new Set(charts.map(({ spec }) => spec.subject))];
for (const subject of subjects) ring.set(subject, new Series(1));

function source(subject) {
  if (view.window <= 900) return ring.get(subject);
  const window = view.end === null ? view.window : 86400;
  return long.get(`${subject} ${window}`) ?? new Series(10);
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
    const data = source(chart.spec.subject).columns(chart.spec.series.map((line) => line.field), from, to);
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

export async function loadLong() {
  if (view.window <= 900) return;
  const window = view.end === null ? view.window : 86400;
  for (const subject of subjects) {
    const answer = await fetch(`${holder.dataset.history}?${new URLSearchParams({ subject, window })}`);
    if (!answer.ok) continue;
    const series = new Series(window > 3600 ? 60 : 10);
    series.replace((await answer.json()).samples);
    long.set(`${subject} ${window}`, series);
  }
}

charts.forEach(build);
loadMarks(holder.dataset.marks).then(draw);
subscribe(subjects, 900);
on("history", ({ subject, samples }) => { ring.get(subject)?.replace(samples); draw(); tell(); });
let ahead = false;
on("sample", ({ subject, t, values }) => {
  if (!ring.has(subject)) return;
  ring.get(subject).push(t, values);
  if (ahead || view.end !== null || view.window > 900) return;
  ahead = true;
  requestAnimationFrame(() => { ahead = false; draw(); });
});
setInterval(tell, 10000);
setInterval(async () => { await loadLong(); if (view.end === null && !document.hidden) draw(); }, 15000);
document.addEventListener("headworks:look", () => { charts.forEach(build); draw(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { charts.forEach(build); draw(); });
new ResizeObserver(() => { for (const { u, plot } of charts) u.setSize({ width: plot.clientWidth, height: plot.clientHeight }); draw(); }).observe(holder);
import("./chart-time.js");
