// One websocket a page: subscribes, comes back by itself, and says how it is. While it is down, values are polled.
const PATH = "/ws/telemetry/";
const POLL_MS = 5000;
const LONGEST_WAIT_MS = 15000;

const wanted = new Map(); // subject -> seconds of history
const listeners = { sample: new Set(), history: new Set(), event: new Set(), log: new Set(), state: new Set() };
let socket = null;
let wait = 500;
let poll = null;

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
  setState("connecting");
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(`${scheme}//${location.host}${PATH}`);
  socket.addEventListener("open", opened);
  socket.addEventListener("message", (message) => received(JSON.parse(message.data)));
  socket.addEventListener("close", lost);
}

function opened() {
  wait = 500;
  clearInterval(poll);
  poll = null;
  setState("live");
  const byHistory = Map.groupBy ? Map.groupBy(wanted, ([, seconds]) => seconds) : grouped();
  for (const [seconds, entries] of byHistory) {
    send({ type: "subscribe", subjects: entries.map(([subject]) => subject), history_s: seconds });
  }
}

function grouped() {
  const found = new Map();
  for (const entry of wanted) found.set(entry[1], [...(found.get(entry[1]) ?? []), entry]);
  return found;
}

function received(frame) {
  if (frame.type === "log") emit("log", frame);
  else if (listeners[frame.type]) emit(frame.type, frame);
}

function lost() {
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
    if (!answer.ok) return;
    const { samples } = await answer.json();
    for (const [subject, values] of Object.entries(samples)) emit("sample", { subject, t: values.t, values });
  } catch {
    // the console itself is away; the next round tries again
  }
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
