// The address of the planner holds what was filled in: replaced while one drags, a new entry of the history when one
// lets go, so that going back undoes a step.
import { toast } from "./shell.js";

const form = document.getElementById("planner-form");
const LONGEST_ADDRESS = 8000;
const MEANS = ["input_tokens", "output_tokens"];
const PERCENTILES = ["input", "output"].flatMap((side) => ["p50", "p95", "p99"].map((one) => `${side}_${one}`));
const USUAL = { source: "known", lengths: "mean" };
let settled = location.pathname + location.search;

// what is sent with the whole form without any script only
const PLAIN = ["csrfmiddlewaretoken", "safetensors_file", "trace_file", "trace_text"];
export const fields = () => [...form.querySelectorAll("input[name], select[name], textarea[name]")].filter((one) => !PLAIN.includes(one.name));
export const named = (name) => form.querySelector(`[name="${name}"]:not([type=radio])`);

export function values() {
  const source = form.querySelector("[name=source]:checked").value;
  const left = { known: ["variant", "config"], catalog: ["model", "config"], config: ["model", "variant"] }[source];
  left.push(...(form.dataset.traceKind === "lengths" ? [...MEANS, ...PERCENTILES, "lengths"] : form.querySelector("[name=lengths]:checked").value === "mean" ? PERCENTILES : MEANS));
  const found = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value !== "" && !left.includes(name) && !PLAIN.includes(name)) found.set(name, value);
  }
  if (found.get("lengths") === "mean") found.delete("lengths");
  if (found.get("purpose") === "interactive") found.delete("purpose");
  for (const name of ["survive_node_loss", "own_measurements"]) if (found.get(name) === "true") found.delete(name);
  return found;
}

export function keep(isNew) {
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

// Fills the form in as the address says, after going back or forward.
export function restore() {
  const found = new URLSearchParams(location.search);
  settled = location.pathname + location.search;
  for (const field of fields()) {
    if (field.type === "radio") field.checked = field.value === (found.get(field.name) ?? USUAL[field.name]);
    else if (["purpose", "survive_node_loss", "own_measurements"].includes(field.name)) field.value = found.get(field.name) ?? field.options[0].value;
    else field.value = found.get(field.name) ?? "";
  }
}
