// The planner asks again at every change: one question under way at a time, so the newest answer is always the last.
// The address keeps what was filled in: replaced while one drags, a new entry of the history when one lets go.
import { drawCurves, resizeCurves } from "./planner-chart.js";
import { toast } from "./shell.js";
import { say } from "./strings.js";

const form = document.getElementById("planner-form");
const answer = document.getElementById("planner-answer");
const said = document.getElementById("planner-said");
const LONGEST_ADDRESS = 8000;
let asking = false;
let due = false;
let settled = location.pathname + location.search;

const fields = () => [...form.querySelectorAll("[name]:not([name=csrfmiddlewaretoken])")];
const named = (name) => form.querySelector(`[name="${name}"]:not([type=radio])`);

function values() {
  const source = form.querySelector("[name=source]:checked").value;
  const left = { known: ["variant", "config"], catalog: ["model", "config"], config: ["model", "variant"] }[source];
  const found = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value !== "" && !left.includes(name)) found.set(name, value);
  }
  if (found.get("purpose") === "interactive") found.delete("purpose");
  if (found.get("survive_node_loss") === "true") found.delete("survive_node_loss");
  return found;
}

// address
function keep(isNew) {
  const found = values();
  if (found.has("config")) {
    try { found.set("config", JSON.stringify(JSON.parse(found.get("config")))); } catch { /* told at the field */ }
    if (found.toString().length > LONGEST_ADDRESS) {
      found.delete("config");
      if (isNew) toast(form.dataset.noAddress);
    }
  }
  const url = location.pathname + (found.size ? `?${found}` : "");
  if (isNew && url !== settled) {
    history.replaceState(null, "", settled);
    history.pushState(null, "", url);
    settled = url;
  } else if (!isNew) history.replaceState(null, "", url);
}

addEventListener("popstate", () => {
  const found = new URLSearchParams(location.search);
  settled = location.pathname + location.search;
  for (const field of fields()) {
    if (field.type === "radio") field.checked = field.value === (found.get("source") ?? "known");
    else if (field.name === "purpose" || field.name === "survive_node_loss") field.value = found.get(field.name) ?? field.options[0].value;
    else field.value = found.get(field.name) ?? "";
  }
  showFile();
  slideAll();
  ask();
});

// question and answer
async function ask() {
  due = true;
  if (asking) return;
  asking = true;
  answer.setAttribute("aria-busy", "true");
  while (due) {
    due = false;
    await once();
  }
  asking = false;
  answer.setAttribute("aria-busy", "false");
}

async function once() {
  const config = named("config").value;
  if (form.querySelector("[name=source]:checked").value === "config" && config.length > Number(form.dataset.mostConfig)) {
    tell({ config: form.dataset.tooLarge });
    return;
  }
  try {
    const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
    const response = await fetch(form.dataset.answer, { method: "POST", body: values(), headers: { "X-CSRFToken": token } });
    if (response.redirected) { location.reload(); return; }
    if (response.status >= 500 || response.status === 403 || response.status === 400) { toast(say("failed", { code: response.status }), "error"); return; }
    show(await response.text());
  } catch {
    toast(say("offline"), "error");
  }
}

function show(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const problems = JSON.parse(parsed.getElementById("planner-problems")?.textContent ?? "{}");
  tell(problems);
  const error = parsed.querySelector("[data-answer-error]");
  const open = [...answer.querySelectorAll("details")].map((one) => one.open);
  // what was answered last stays readable, dimmed, while a field is wrong
  if (error && answer.querySelector(".planner-details")) {
    answer.classList.add("stale");
    answer.querySelector("[data-answer-error]")?.remove();
    answer.prepend(error);
  } else {
    answer.classList.remove("stale");
    const held = document.activeElement?.dataset?.takeSplit;
    answer.replaceChildren(...parsed.body.childNodes);
    answer.querySelectorAll("details").forEach((one, index) => { one.open = open[index] ?? false; });
    if (held) answer.querySelector("[data-take-split]")?.focus();
    taken();
    drawCurves(answer);
  }
  later();
}

function tell(problems) {
  for (const field of fields()) {
    if (field.type === "radio") continue;
    const text = problems[field.name] ?? "";
    const line = document.getElementById(`${field.id}-problem`);
    if (line && line.textContent !== text) line.textContent = text;
    if (text) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    if (text) field.closest("details")?.setAttribute("open", "");
  }
}

// one sentence for those who listen, when the dragging has ended
let quiet = null;
function later() {
  clearTimeout(quiet);
  quiet = setTimeout(() => {
    const parts = answer.querySelectorAll("[data-verdict], [data-why], [data-answer-error] b");
    said.textContent = [...parts].map((one) => one.textContent.trim().replace(/\s+/g, " ")).join(". ");
  }, 900);
}

// what was taken for an empty field stands in it as a hint
function taken() {
  const found = JSON.parse(document.getElementById("planner-taken")?.textContent || "{}") || {};
  for (const [name, text] of Object.entries(found)) {
    const field = named(name);
    if (field && text) field.placeholder = text;
  }
  slideAll();
}

// handles
function toValue(range) {
  const { low, high, step, scale } = numbers(range);
  const share = range.valueAsNumber / 1000;
  const raw = scale === "log" ? low * (high / low) ** share : low + (high - low) * share;
  const size = scale === "log" && step === 1 ? Math.max(1, 2 ** Math.floor(Math.log2(raw) - 3)) : step;
  const rounded = Math.max(low, Math.min(high, Math.round(raw / size) * size));
  return String(Number(rounded.toFixed(4)));
}

function toShare(range, value) {
  const { low, high, scale } = numbers(range);
  const held = Math.max(low, Math.min(high, value));
  return Math.round(1000 * (scale === "log" ? Math.log(held / low) / Math.log(high / low) : (held - low) / (high - low)));
}

function numbers(range) {
  const { low, high, step, scale } = range.dataset;
  return { low: Number(low), high: Number(high), step: Number(step), scale };
}

function slideAll() {
  for (const range of form.querySelectorAll("[data-slides]")) {
    if (range === document.activeElement) continue;
    const field = named(range.dataset.slides);
    const value = Number(field.value || field.placeholder);
    if (value > 0) range.valueAsNumber = toShare(range, value);
    range.classList.toggle("unset", field.value === "");
    range.setAttribute("aria-valuetext", field.value || field.placeholder || "–");
  }
}

form.addEventListener("input", (event) => {
  if (event.target.type === "file") return;
  const { slides } = event.target.dataset;
  if (slides) {
    named(slides).value = toValue(event.target);
    event.target.classList.remove("unset");
    event.target.setAttribute("aria-valuetext", named(slides).value);
  } else slideAll();
  keep(false);
  ask();
});
form.addEventListener("change", (event) => { if (event.target.type !== "file") keep(true); });
form.addEventListener("submit", (event) => { event.preventDefault(); keep(true); ask(); });

answer.addEventListener("click", (event) => {
  const button = event.target.closest("[data-take-split]");
  if (!button) return;
  const [tensor, pipeline] = button.dataset.takeSplit.split(",");
  named("tensor_parallel").value = tensor;
  named("pipeline_parallel").value = pipeline;
  keep(true);
  ask();
});

// an index of the weights
const file = document.getElementById("f-file");
const held = form.querySelector("[data-file-held]");
const showFile = () => { held.hidden = named("safetensors").value === ""; };

file.addEventListener("change", async () => {
  const [chosen] = file.files;
  if (!chosen) return;
  const problem = document.getElementById("f-safetensors-problem");
  if (chosen.size > Number(form.dataset.mostFile)) {
    problem.textContent = form.dataset.tooLarge;
    return;
  }
  const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
  try {
    const response = await fetch(form.dataset.files, { method: "POST", body: await chosen.text(), headers: { "X-CSRFToken": token, "Content-Type": "application/json" } });
    const found = await response.json();
    problem.textContent = found.problem ?? "";
    named("safetensors").value = found.safetensors ?? "";
  } catch {
    toast(say("offline"), "error");
    return;
  }
  showFile();
  keep(true);
  ask();
});

form.querySelector("[data-file-clear]").addEventListener("click", () => {
  named("safetensors").value = "";
  file.value = "";
  showFile();
  keep(true);
  ask();
});

form.querySelector("[data-without-script]").hidden = true;
for (const range of form.querySelectorAll("[data-slides]")) range.hidden = false;
taken();
drawCurves(answer);
addEventListener("resize", resizeCurves);
document.addEventListener("headworks:look", () => drawCurves(answer));
