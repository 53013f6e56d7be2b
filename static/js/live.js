// Live values in the page: cells, sparklines, parts that are fetched again after a change.
import { FORMATS } from "./format.js";
import { on, subscribe, unsubscribe } from "./socket.js";

const SPARK_S = 300;
const SPARK_EVERY = 5;
const cells = new Map(); // subject -> elements
const sparks = new Map(); // subject -> elements
const rings = new Map(); // subject -> samples of the last five minutes
const newest = new Map();
const due = new Set();
let mine = new Set();

export function scan() {
  cells.clear();
  sparks.clear();
  collect("[data-live]", "live", cells);
  collect("[data-spark]", "spark", sparks);
  const now = new Set([...cells.keys(), ...sparks.keys()]);
  const gone = [...mine].filter((subject) => !now.has(subject));
  mine = now;
  unsubscribe(gone);
  subscribe([...sparks.keys()], SPARK_S);
  subscribe([...cells.keys()].filter((subject) => !sparks.has(subject)));
  for (const subject of now) if (newest.has(subject)) due.add(subject);
  for (const subject of sparks.keys()) drawSparks(subject);
  schedule();
}

function collect(selector, name, into) {
  for (const element of document.querySelectorAll(selector)) {
    const subject = element.dataset[name];
    if (into.has(subject)) into.get(subject).push(element);
    else into.set(subject, [element]);
  }
}

let scheduled = false;

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    for (const subject of due) write(subject);
    due.clear();
  });
}

function write(subject) {
  const values = newest.get(subject) ?? {};
  for (const element of cells.get(subject) ?? []) {
    const value = values[element.dataset.field];
    if (element.dataset.form === "width") {
      element.setAttribute("width", `${Math.max(0, Math.min(1, value ?? 0)) * 100}%`);
      continue;
    }
    const text = FORMATS[element.dataset.form](value);
    if (element.textContent !== text) element.textContent = text;
  }
}

function drawSparks(subject) {
  const ring = rings.get(subject) ?? [];
  for (const element of sparks.get(subject) ?? []) {
    const begins = Number(element.dataset.begins ?? 0);
    const points = ring.filter((sample) => sample.t >= begins).map((sample) => [sample.t, sample.values[element.dataset.field]]);
    const end = points.at(-1)?.[0] ?? 0;
    const known = points.filter(([, value]) => value !== null && value !== undefined);
    if (known.length < 2) {
      element.replaceChildren();
      continue;
    }
    const top = Math.max(...known.map(([, value]) => value)) || 1;
    const step = Math.ceil(known.length / 60);
    const line = known
      .filter((_, index) => index % step === 0 || index === known.length - 1)
      .map(([t, value]) => `${(100 - ((end - t) / SPARK_S) * 100).toFixed(1)} ${(23 - (value / top) * 21).toFixed(1)}`)
      .join("L");
    const first = (100 - ((end - known[0][0]) / SPARK_S) * 100).toFixed(1);
    element.innerHTML = `<path class="area" d="M${line}L100 24L${first} 24Z"/><path vector-effect="non-scaling-stroke" d="M${line}"/>`;
  }
}

on("sample", ({ subject, t, values }) => {
  newest.set(subject, values);
  if (cells.has(subject)) {
    due.add(subject);
    schedule();
  }
  if (!sparks.has(subject)) return;
  const ring = rings.get(subject) ?? [];
  ring.push({ t, values });
  while (ring.length && ring[0].t < t - SPARK_S) ring.shift();
  rings.set(subject, ring);
  if (ring.length < 10 || t % SPARK_EVERY === 0) drawSparks(subject);
});

on("history", ({ subject, samples }) => {
  if (!sparks.has(subject)) return;
  rings.set(subject, samples.map((sample) => ({ t: sample.t, values: sample })));
  drawSparks(subject);
});

// parts of the page that show an object fetch themselves again when it has changed
const waiting = new Map();

on("event", ({ object_kind: kind, object_id: id }) => {
  for (const element of document.querySelectorAll("[data-refresh-on]")) {
    const words = element.dataset.refreshOn.split(" ");
    if (words.includes(`${kind}:${id}`) || words.includes(`${kind}:*`)) refresh(element);
  }
});

export function refresh(element) {
  if (waiting.has(element) || element.querySelector("details[open], :focus-visible:not(a)")) return;
  waiting.set(element, setTimeout(() => {
    waiting.delete(element);
    if (element.isConnected) htmx.trigger(element, "refresh");
  }, 300));
}

let ticks = 0;
setInterval(() => {
  ticks += 1;
  if (document.hidden) return;
  for (const element of document.querySelectorAll("[data-poll]")) {
    // what is fetched again may itself say whether, and how often, it is to be
    if (ticks % Number(element.dataset.poll) === 0) refresh(element.closest("[hx-get]"));
  }
}, 1000);
