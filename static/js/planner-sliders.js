// Handles of the planner's numbers: linear or logarithmic, and what they say.
export function toValue(range) {
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

export function slideAll(form) {
  for (const range of form.querySelectorAll("[data-slides]")) {
    if (range === document.activeElement) continue;
    const field = form.querySelector(`[name="${range.dataset.slides}"]`);
    const value = Number(field.value || field.placeholder);
    if (value > 0) range.valueAsNumber = toShare(range, value);
    range.classList.toggle("unset", field.value === "");
    range.setAttribute("aria-valuetext", field.value || field.placeholder || "–");
  }
}
