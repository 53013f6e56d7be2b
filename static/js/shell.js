// The frame: rail, theme, UTC, menus, times, copying, messages.
import { absolute, ago, duration } from "./format.js";
import { say } from "./strings.js";

const root = document.documentElement;

function remember(name, value) {
  document.cookie = `headworks_${name}=${value}; path=/; max-age=31536000; samesite=lax`;
}

export function times(within = document) {
  const now = Date.now();
  for (const element of within.querySelectorAll("time[data-when]")) {
    const at = new Date(element.dateTime);
    const text = ago((now - at) / 1000);
    if (element.textContent !== text) element.textContent = text;
    element.title = absolute(at);
  }
  for (const element of within.querySelectorAll("time[data-moment]")) element.textContent = absolute(new Date(element.dateTime));
  for (const element of within.querySelectorAll("[data-since]")) {
    element.textContent = duration((now - new Date(element.dataset.since)) / 1000);
  }
}

export function toast(text, kind = "good") {
  const box = document.createElement("div");
  box.className = `note ${kind}`;
  const line = document.createElement("p");
  line.textContent = text;
  box.append(line);
  document.getElementById("toasts").append(box);
  setTimeout(() => box.remove(), kind === "error" ? 12000 : 5000);
}

function toggleRail() {
  root.dataset.rail = root.dataset.rail === "narrow" ? "wide" : "narrow";
  remember("rail", root.dataset.rail);
}

function toggleUtc(button) {
  root.dataset.utc = root.dataset.utc === "1" ? "0" : "1";
  remember("utc", root.dataset.utc);
  button.setAttribute("aria-pressed", String(root.dataset.utc === "1"));
  times();
  document.dispatchEvent(new CustomEvent("headworks:look"));
}

function chooseTheme(theme) {
  root.dataset.theme = theme;
  remember("theme", theme);
  markTheme();
  document.dispatchEvent(new CustomEvent("headworks:look"));
}

function markTheme() {
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === root.dataset.theme));
  }
}

async function copy(button) {
  const text = button.closest(".command, .secret, [data-copy-from]").querySelector("pre, code, [data-copy-text]").textContent;
  try {
    await navigator.clipboard.writeText(text);
    toast(say("copied"));
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.closest(".command, .secret, [data-copy-from]").querySelector("pre, code, [data-copy-text]"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  }
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("button, a, summary") ?? event.target;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target) || target.matches("a.menu-item, button.menu-item[type=button]")) menu.open = false;
  }
  if (target.matches("[data-toggle-rail]")) toggleRail();
  if (target.matches("[data-toggle-utc]")) toggleUtc(target);
  if (target.matches("[data-theme-choice]")) chooseTheme(target.dataset.themeChoice);
  if (target.matches("[data-copy]")) copy(target);
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.querySelector("details.menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

document.addEventListener("htmx:responseError", (event) => toast(say("failed", { code: event.detail.xhr.status }), "error"));
document.addEventListener("htmx:sendError", () => toast(say("offline"), "error"));
document.addEventListener("headworks:toast", (event) => toast(event.detail.text ?? event.detail.value));

// on a phone the tab of this page may lie beyond the edge
const tab = document.querySelector(".tabs [aria-current]");
if (tab) {
  const beyond = tab.getBoundingClientRect().right - tab.parentElement.getBoundingClientRect().right;
  if (beyond > 0) tab.parentElement.scrollLeft += beyond;
}

times();
markTheme();
setInterval(times, 1000);
