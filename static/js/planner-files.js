// An uploaded index of the weights: the server cuts it down to what a question needs of it.
import { toast } from "./shell.js";
import { say } from "./strings.js";

const form = document.getElementById("planner-form");
const index = form.querySelector("[name=safetensors]");
const file = document.getElementById("f-file");
const held = form.querySelector("[data-file-held]");
export const showFile = () => { held.hidden = index.value === ""; };

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
    index.value = found.safetensors ?? "";
  } catch {
    toast(say("offline"), "error");
    return;
  }
  showFile();
  form.dispatchEvent(new CustomEvent("planner:files"));
});

form.querySelector("[data-file-clear]").addEventListener("click", (event) => {
  event.preventDefault();
  index.value = "";
  file.value = "";
  showFile();
  form.dispatchEvent(new CustomEvent("planner:files"));
});
