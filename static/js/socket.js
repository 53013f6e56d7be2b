// One websocket a page: subscribes, comes back by itself, and says how it is. While it is down, values are polled.
// States: connecting, live, lost (no connection), away (connected, but nobody has live data), full (too many
// subjects), out (logged out). A page never asks for more subjects than one socket takes: its lists have pages.
const PATH = "/ws/telemetry/";
const POLL_MS = 5000;
const LONGEST_WAIT_MS = 15000;
const LOGGED_OUT = 4401;

const wanted = new Map(); // subject -> seconds of history
const listeners = { sample: new Set(), history: new Set(), event: new Set(), log: new Set(), error: new Set(), state: new Set() };
let socket = null;
let wait = 500;
let poll = null;
let isOut = false;

export function on(kind, listener) {
  listeners[kind].add(listener);
  return () => listeners[kind].delete(listener);
}

export function subscribe(subjects, historyS = 0) {
  const fresh = subjects.filter((subject) => !wanted.has(subject) || wanted.get(subject) < historyS);
  for (const subject of fresh) wanted.set(subject, historyS);
  if (fresh.length) send({ type: "subscribe", subjects: fresh, history_s: historyS });
}

export function unsubscribe(subjects) {
  const known = subjects.filter((subject) => wanted.delete(subject));
  if (known.length) send({ type: "unsubscribe", subjects: known });
}

export function connect() {
  if (isOut) return;
  setState("connecting");
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(`${scheme}//${location.host}${PATH}`);
  socket.addEventListener("open", opened);
  socket.addEventListener("message", (message) => received(JSON.parse(message.data)));
  socket.addEventListener("close", lost);
}

function opened() {
  wait = 500;
  stopPolling();
  setState("live");
  subscribeAll();
}

function subscribeAll() {
  const byHistory = new Map();
  for (const [subject, seconds] of wanted) byHistory.set(seconds, [...(byHistory.get(seconds) ?? []), subject]);
  for (const [seconds, subjects] of byHistory) send({ type: "subscribe", subjects, history_s: seconds });
}

function received(frame) {
  if (frame.type === "error") refused(frame);
  // samples come again: whoever was away is back
  else if (frame.type === "sample" && document.documentElement.dataset.link === "away") setState("live");
  if (listeners[frame.type]) emit(frame.type, frame);
}

function refused({ code, message }) {
  if (code === "unavailable") {
    if (wanted.size) setState("away");
    setTimeout(() => { if (document.documentElement.dataset.link === "away") subscribeAll(); }, POLL_MS);
  } else if (code === "too_many") {
    setState("full");
  } else if (code !== "forbidden" && code !== "not_found") {
    console.warn(`telemetry socket: ${message} (${code})`);
  }
}

function lost({ code }) {
  if (code === LOGGED_OUT) leave();
  if (isOut) return;
  setState("lost");
  if (!poll) poll = setInterval(readNewest, POLL_MS);
  setTimeout(connect, wait * (0.75 + Math.random() / 2));
  wait = Math.min(LONGEST_WAIT_MS, wait * 2);
}

async function readNewest() {
  const subjects = [...wanted.keys()].filter((subject) => !subject.startsWith("log:"));
  if (!subjects.length || document.hidden) return;
  try {
    const answer = await fetch(`/telemetry/newest/?${new URLSearchParams(subjects.slice(0, 200).map((s) => ["subject", s]))}`);
    if (answer.redirected) leave();
    if (!answer.ok || answer.redirected) return;
    const { samples } = await answer.json();
    for (const subject of subjects) emit("sample", { subject, t: samples[subject]?.t ?? Date.now() / 1000, values: samples[subject] ?? {} });
  } catch {
    // the console itself is away; the next round tries again
  }
}

function leave() {
  stopPolling();
  isOut = true;
  setState("out");
}

function stopPolling() {
  clearInterval(poll);
  poll = null;
}

function send(frame) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame));
}

function emit(kind, frame) {
  for (const listener of listeners[kind]) listener(frame);
}

function setState(state) {
  document.documentElement.dataset.link = state;
  emit("state", state);
}
