// The time bar: windows, earlier and later, follow. Scrolling back pauses the live tail.
import { draw, loadLong } from "./charts.js";
import { view } from "./chart-data.js";
import { say } from "./strings.js";

const bar = document.querySelector("[data-time-bar]");

async function show(window, end) {
  const now = Date.now() / 1000;
  view.window = window;
  view.end = end === null || end >= now - 1 ? null : Math.max(end, now - 86400 + window);
  for (const button of bar.querySelectorAll("[data-window]")) button.setAttribute("aria-pressed", String(Number(button.dataset.window) === window));
  bar.querySelector("[data-follow]").setAttribute("aria-pressed", String(view.end === null));
  bar.querySelector("[data-live-state] span").textContent = say(view.end === null ? "live" : "paused");
  bar.dataset.following = String(view.end === null);
  await loadLong();
  draw();
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
