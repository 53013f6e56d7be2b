// What every page runs.
import "./dialog.js";
import "./keys.js";
import { scan } from "./live.js";
import "./pick.js";
import { times, toast } from "./shell.js";
import { connect, on } from "./socket.js";
import { say } from "./strings.js";

scan();
connect();

document.addEventListener("htmx:afterSwap", (event) => {
  times(event.detail.target);
  scan();
});

// a short loss is not worth a word
const banner = document.getElementById("link-banner");
let told = null;

on("state", (state) => {
  if (state === "lost" && !told) {
    told = setTimeout(() => {
      banner.querySelector("span").textContent = say("connection_lost");
      banner.hidden = false;
    }, 3000);
  }
  if (state === "live") {
    clearTimeout(told);
    told = null;
    if (!banner.hidden) toast(say("connection_back"));
    banner.hidden = true;
  }
});
