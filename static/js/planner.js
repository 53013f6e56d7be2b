// The planner asks again at every change: one question under way at a time, so the newest answer is always the last.
import { fields, keep, named, restore, values } from "./planner-address.js";
import { drawCurves, resizeCurves } from "./planner-chart.js";
import { showFile } from "./planner-files.js";
import { slideAll, toValue } from "./planner-sliders.js";
import { showTrace } from "./planner-trace.js";
import { toast } from "./shell.js";
import { say } from "./strings.js";

const form = document.getElementById("planner-form");
const answer = document.getElementById("planner-answer");
const said = document.getElementById("planner-said");
let asking = false;
let due = false;

addEventListener("popstate", () => {
  restore();
  showFile();
  showTrace();
  slideAll(form);
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
  slideAll(form);
}

form.addEventListener("input", (event) => {
  if (event.target.type === "file") return;
  const { slides } = event.target.dataset;
  if (slides) {
    named(slides).value = toValue(event.target);
    event.target.classList.remove("unset");
    event.target.setAttribute("aria-valuetext", named(slides).value);
  } else slideAll(form);
  keep(false);
  ask();
});
form.addEventListener("change", (event) => { if (event.target.type !== "file") keep(true); });
form.addEventListener("submit", (event) => { event.preventDefault(); keep(true); ask(); });

form.addEventListener("planner:files", () => { keep(true); ask(); });

answer.addEventListener("click", (event) => {
  const button = event.target.closest("[data-take-split]");
  if (!button) return;
  const [tensor, pipeline, copies, experts] = button.dataset.takeSplit.split(",");
  named("tensor_parallel").value = tensor;
  named("pipeline_parallel").value = pipeline;
  named("attention_copies").value = copies === "1" ? "" : copies;
  named("expert_parallel").value = experts;
  keep(true);
  ask();
});

form.querySelector("[data-without-script]").hidden = true;
for (const range of form.querySelectorAll("[data-slides]")) range.hidden = false;
taken();
drawCurves(answer);
addEventListener("resize", resizeCurves);
// a form that is longer than the window sticks at its lower edge, a shorter one at its upper edge
new ResizeObserver(() => form.style.setProperty("--form-height", `${form.offsetHeight}px`)).observe(form);
document.addEventListener("headworks:look", () => drawCurves(answer));
