// What the scripts say, in the reader's language; the page brings it as JSON.
const holder = document.getElementById("strings");
const table = holder ? JSON.parse(holder.textContent) : {};

export function say(key, values = {}) {
  let text = table[key] ?? key;
  for (const [name, value] of Object.entries(values)) text = text.replaceAll(`%(${name})s`, value);
  return text;
}
