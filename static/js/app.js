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

// what stands between the reader and live values; a short loss is not worth a word
const banner = document.getElementById("link-banner");
const TEXTS = { lost: "connection_lost", away: "live_away", full: "live_full", out: "logged_out" };
const WAIT_MS = { lost: 3000, away: 1000, full: 0, out: 0 };
let told = null;
let shown = "";

on("state", (state) => {
  if (state === "live") {
    clearTimeout(told);
    told = null;
    if (!banner.hidden) toast(say("connection_back"));
    banner.hidden = true;
    shown = "";
  } else if (TEXTS[state] && state !== shown) {
    clearTimeout(told);
    shown = state;
    told = setTimeout(() => {
      banner.querySelector("span").textContent = say(TEXTS[state]);
      banner.querySelector("a").hidden = state !== "out";
      banner.hidden = false;
    }, WAIT_MS[state]);
  }
});
