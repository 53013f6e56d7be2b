// An uploaded or pasted trace: the server cuts it down to what a question needs of it.
import { toast } from "./shell.js";
import { say } from "./strings.js";

const form = document.getElementById("planner-form");
const kept = form.querySelector("[name=trace]");
const file = document.getElementById("f-trace-file");
const text = document.getElementById("f-trace-text");
const problem = document.getElementById("f-trace-problem");
const MOST_BYTES = Number(form.dataset.mostFile);
let newest = 0;

function kindOf() {
  if (kept.value === "") return "";
  try { return JSON.parse(kept.value).input ? "lengths" : "rates"; } catch { return "rates"; }
}

export function showTrace() {
  form.dataset.traceKind = kindOf();
  form.querySelector("[data-trace-held]").hidden = kept.value === "";
  for (const one of form.querySelectorAll("[data-trace-has]")) one.hidden = one.dataset.traceHas !== form.dataset.traceKind;
  const hint = document.getElementById("f-peak_requests_per_s-help");
  hint.textContent = kept.value === "" ? form.dataset.hintCards : form.dataset.hintTrace;
  if (kept.value === "") for (const name of ["peak_requests_per_s", "mean_requests_per_s"]) form.querySelector(`[name=${name}]`).placeholder = "";
}

async function send(body, size) {
  newest += 1;
  const mine = newest;
  if (size > MOST_BYTES) {
    problem.textContent = form.dataset.traceTooLarge;
    return;
  }
  const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
  let found;
  try {
    const response = await fetch(form.dataset.traceTo, { method: "POST", body, headers: { "X-CSRFToken": token, "Content-Type": "text/plain" } });
    if (response.redirected) { location.reload(); return; }
    found = await response.json();
  } catch {
    toast(say("offline"), "error");
    return;
  }
  if (mine !== newest) return; // something newer was given meanwhile
  problem.textContent = found.problem ?? "";
  if (found.problem) return;
  kept.value = found.trace;
  text.value = "";
  form.querySelector("[data-trace-paste]").open = false;
  showTrace();
  form.dispatchEvent(new CustomEvent("planner:files"));
}

file.addEventListener("change", () => { if (file.files.length) send(file.files[0], file.files[0].size); });

// pasted: asked once the writing has rested
let resting = null;
text.addEventListener("input", (event) => {
  event.stopPropagation();
  clearTimeout(resting);
  const { value } = text;
  resting = setTimeout(() => {
    if (value.trim()) send(value, new Blob([value]).size);
    else problem.textContent = "";
  }, 500);
});
text.addEventListener("change", (event) => event.stopPropagation());

form.querySelector("[data-trace-clear]").addEventListener("click", (event) => {
  event.preventDefault();
  newest += 1;
  kept.value = "";
  file.value = "";
  problem.textContent = "";
  showTrace();
  file.focus();
  form.dispatchEvent(new CustomEvent("planner:files"));
});
showTrace();
