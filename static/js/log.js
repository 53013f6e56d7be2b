// A log: live tail, follow and pause, search, copy.
import { on, subscribe } from "./socket.js";
import { say } from "./strings.js";

const MOST_LINES = 3000;
const log = document.querySelector("[data-log]");
const lines = log.querySelector(".log-lines");
const follow = log.querySelector("[data-log-follow]");
const search = log.querySelector("[data-log-search]");
const count = log.querySelector("[data-log-count]");
let following = true;

function setFollowing(value) {
  following = value;
  follow.setAttribute("aria-pressed", String(value));
  if (value) lines.scrollTop = lines.scrollHeight;
}

function dress(line) {
  const text = line.querySelector(".t");
  line.classList.toggle("bad", /\b(ERROR|CRITICAL|FATAL)\b|Traceback|^\w*Error:/.test(text.textContent));
  line.classList.toggle("warn", /\bWARN(ING)?\b/.test(text.textContent));
  const wanted = search.value.toLowerCase();
  const plain = text.textContent;
  const at = wanted ? plain.toLowerCase().indexOf(wanted) : -1;
  line.hidden = Boolean(wanted) && at < 0;
  if (at < 0) {
    text.textContent = plain;
    return;
  }
  const mark = document.createElement("mark");
  mark.textContent = plain.slice(at, at + wanted.length);
  text.replaceChildren(plain.slice(0, at), mark, plain.slice(at + wanted.length));
}

function add(n, content) {
  const line = document.createElement("div");
  line.className = "log-line";
  const number = document.createElement("span");
  number.className = "n";
  number.textContent = n;
  const text = document.createElement("span");
  text.className = "t";
  text.textContent = content;
  line.append(number, text);
  dress(line);
  lines.append(line);
}

function tell() {
  const all = lines.querySelectorAll(".log-line .n");
  const shown = lines.querySelectorAll(".log-line:not([hidden]) .n");
  count.textContent = search.value ? say("matches", { count: shown.length }) : say("lines", { count: all.length });
}

for (const line of lines.querySelectorAll("div.log-line")) dress(line);
tell();
setFollowing(true);

if (!("ended" in log.dataset)) subscribe([`log:${log.dataset.log}`]);

// what there is comes with the first answer; after a while there is nothing
const answered = () => lines.querySelector("[data-log-waiting]")?.remove();
setTimeout(answered, 3000);
on("error", answered);

on("log", ({ subject, lines: fresh }) => {
  if (subject !== `log:${log.dataset.log}`) return;
  answered();
  lines.querySelector("[data-log-none]")?.remove();
  const newest = Number(lines.lastElementChild?.querySelector(".n")?.textContent ?? -1);
  // after a reconnect lines come again and end at or above the newest; a frame that ends below it counts anew
  const countsAnew = fresh.length > 0 && fresh.at(-1).n < newest;
  for (const { n, line } of fresh) if (n > newest || countsAnew) add(n, line);
  while (lines.childElementCount > MOST_LINES) lines.firstElementChild.remove();
  tell();
  if (following) lines.scrollTop = lines.scrollHeight;
});

lines.addEventListener("scroll", () => {
  const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 24;
  if (atEnd !== following) {
    following = atEnd;
    follow.setAttribute("aria-pressed", String(atEnd));
  }
});
follow.addEventListener("click", () => setFollowing(!following));
search.addEventListener("input", () => {
  for (const line of lines.querySelectorAll("div.log-line")) dress(line);
  tell();
});
log.querySelector("[data-log-copy]").addEventListener("click", async () => {
  const text = [...lines.querySelectorAll(".log-line:not([hidden]) .t")].map((line) => line.textContent).join("\n");
  await navigator.clipboard.writeText(text);
});
