// Try the model: the answer appears as it is generated.
import { FORMATS, significant } from "./format.js";
import { say } from "./strings.js";

const form = document.querySelector("[data-try]");
const answer = form.querySelector("[data-try-answer]");
const result = form.querySelector("[data-try-result]");
const send = form.querySelector("[type=submit]");
const stop = form.querySelector("[data-try-stop]");
let running = null;

function show(frame) {
  if (frame.delta !== undefined) {
    if (answer.firstElementChild) answer.replaceChildren();
    answer.append(frame.delta);
    answer.scrollTop = answer.scrollHeight;
  } else if (frame.error) {
    result.textContent = `${frame.error.message} (${frame.error.code})`;
  } else if (frame.done) {
    const { tokens, ttft_s: ttft, tokens_per_s: rate } = frame.done;
    result.textContent = say("try_done", { tokens, ttft: FORMATS.latency(ttft), rate: rate === null ? "–" : significant(rate) });
  }
}

async function run() {
  running = new AbortController();
  const reply = await fetch(form.action, { method: "POST", body: new FormData(form), signal: running.signal });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) show(JSON.parse(line));
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  send.disabled = true;
  stop.hidden = false;
  result.textContent = "";
  const waiting = document.createElement("span");
  waiting.className = "muted";
  waiting.textContent = say("thinking");
  answer.replaceChildren(waiting);
  try {
    await run();
  } catch (error) {
    result.textContent = error.name === "AbortError" ? say("try_stopped") : say("offline");
  } finally {
    if (answer.firstElementChild) answer.replaceChildren();
    send.disabled = false;
    stop.hidden = true;
  }
});

stop.addEventListener("click", () => running?.abort());
