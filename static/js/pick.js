// Rows picked in a table, and what can be done with all of them.
import { openDialog } from "./dialog.js";
import { say } from "./strings.js";

const picked = () => [...document.querySelectorAll("[data-pick]:checked")];

export function update() {
  const bar = document.querySelector("[data-bulk]");
  if (!bar) return;
  const count = picked().length;
  bar.hidden = count === 0;
  bar.querySelector("[data-bulk-count]").textContent = say("selected", { count });
  const all = document.querySelector("[data-pick-all]");
  all.checked = count > 0 && count === document.querySelectorAll("[data-pick]").length;
  all.indeterminate = count > 0 && !all.checked;
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-pick-all]")) {
    for (const box of document.querySelectorAll("[data-pick]")) box.checked = event.target.checked;
  }
  if (event.target.matches("[data-pick], [data-pick-all]")) update();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-bulk-do]");
  if (!button) return;
  openDialog(`${button.dataset.bulkDo}?${new URLSearchParams(picked().map((box) => ["name", box.value]))}`);
});

// a refreshed table keeps what was picked
let kept = [];
document.addEventListener("htmx:beforeSwap", () => { kept = picked().map((box) => box.value); });
document.addEventListener("htmx:afterSwap", () => {
  for (const box of document.querySelectorAll("[data-pick]")) if (kept.includes(box.value)) box.checked = true;
  update();
});
