// Try the model: the answer appears as it is generated.
import { FORMATS, significant } from "./format.js";
import { say } from "./strings.js";

const form = document.querySelector("[data-try]");
const answer = form.querySelector("[data-try-answer]");
const result = form.querySelector("[data-try-result]");
const send = form.querySelector("[type=submit]");
const stop = form.querySelector("[data-try-stop]");
const command = form.querySelector(".rest pre");
const head = command.textContent.slice(0, command.textContent.indexOf("  -d '"));
let running = null;

// The call shown is the one that Send makes.
function tell() {
  const { prompt, max_tokens: most, temperature } = Object.fromEntries(new FormData(form));
  const messages = [{ role: "user", content: prompt }];
  const body = { model: form.dataset.try, messages, max_tokens: Number(most), temperature: Number(temperature), stream: true };
  command.textContent = `${head}  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
}

function show(frame) {
  if (frame.delta !== undefined) {
    if (answer.firstElementChild) answer.replaceChildren();
    answer.append(frame.delta);
    answer.scrollTop = answer.scrollHeight;
  } else if (frame.error) {
    result.textContent = `${frame.error.message} (${frame.error.code})`;
    result.classList.add("problem");
  } else if (frame.done) {
    const { tokens, ttft_s: ttft, tokens_per_s: rate } = frame.done;
    result.textContent = say("try_done", { tokens, ttft: FORMATS.latency(ttft), rate: rate === null ? "–" : significant(rate) });
  }
}

async function run() {
  running = new AbortController();
  const reply = await fetch(form.action, { method: "POST", body: new FormData(form), signal: running.signal });
  if (!reply.ok) {
    show(await refusal(reply));
    return;
  }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines) if (line.trim()) show(JSON.parse(line));
    if (done) return;
  }
}

// A refusal is one JSON object; what stands before the console (a proxy) may answer anything.
async function refusal(reply) {
  const text = await reply.text();
  try {
    const { error } = JSON.parse(text);
    if (error) return { error };
  } catch {
    // no JSON: the status is all there is to tell
  }
  return { error: { message: say("failed", { code: reply.status }), code: `http_${reply.status}` } };
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  send.disabled = true;
  stop.hidden = false;
  result.textContent = "";
  result.classList.remove("problem");
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

form.addEventListener("input", tell);
tell();
stop.addEventListener("click", () => running?.abort());
