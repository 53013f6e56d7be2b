// Keyboard: / search, ? help, g then a letter goes to a page.
import { openDialog } from "./dialog.js";

const PLACES = { o: "/", d: "/deployments/", n: "/nodes/", m: "/models/", p: "/planner/", t: "/gateway/", l: "/pools/", j: "/journal/", a: "/access/" };
let afterG = 0;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog[open], [contenteditable]")) return;
  if (event.key === "/") {
    const search = document.querySelector("#search, [data-search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "?") {
    openDialog("/help/");
  } else if (event.key === "g") {
    afterG = Date.now();
  } else if (Date.now() - afterG < 1500 && PLACES[event.key]) {
    afterG = 0;
    location.assign(PLACES[event.key]);
  }
});
