// The time bar: windows, earlier and later, follow. Scrolling back pauses the live tail.
import { draw, show as showRange } from "./charts.js";
import { view } from "./chart-data.js";
import { say } from "./strings.js";

const bar = document.querySelector("[data-time-bar]");

const FARTHEST_S = 30 * 86400; // roll-ups of minutes are kept so long
let due = null;

function show(window, end) {
  const now = Date.now() / 1000;
  view.window = window;
  view.end = end === null || end >= now - 1 ? null : Math.max(end, now - FARTHEST_S + window);
  for (const button of bar.querySelectorAll("[data-window]")) button.setAttribute("aria-pressed", String(Number(button.dataset.window) === window));
  bar.querySelector("[data-follow]").setAttribute("aria-pressed", String(view.end === null));
  bar.querySelector("[data-live-state] span").textContent = say(view.end === null ? "live" : "paused");
  bar.dataset.following = String(view.end === null);
  draw();
  // a wheel turns on and on: what is missing is fetched when it rests
  clearTimeout(due);
  due = setTimeout(showRange, 200);
}

function move(share) {
  show(view.window, (view.end ?? Date.now() / 1000) + view.window * share);
}

bar.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.window) show(Number(button.dataset.window), view.end);
  if (button.dataset.move) move(Number(button.dataset.move) / 2);
  if ("follow" in button.dataset) show(view.window, view.end === null ? Date.now() / 1000 - 2 : null);
});

document.querySelector("[data-charts]").addEventListener("wheel", (event) => {
  const delta = event.shiftKey ? event.deltaY : event.deltaX;
  if (!delta || (!event.shiftKey && Math.abs(event.deltaX) < Math.abs(event.deltaY))) return;
  event.preventDefault();
  move(delta / 1000);
}, { passive: false });
