// How numbers and times are written. The same as controlplane/console/units.py; a test compares both.
import { say } from "./strings.js";

export const MISSING = "–";
const GIB = 1024 ** 3;

export function significant(value) {
  if (value === 0) return "0";
  const decimals = (number) => 2 - Math.floor(Math.log10(Math.abs(number)));
  const power = 10 ** decimals(value);
  const rounded = Math.round(value * power) / power;
  const shown = Math.max(0, Math.min(6, decimals(rounded)));
  return rounded.toLocaleString("en-US", { minimumFractionDigits: shown, maximumFractionDigits: shown });
}

const known = (write) => (value) => (value === null || value === undefined ? MISSING : write(value));

export const FORMATS = {
  count: known((value) => Math.floor(value + 0.5).toLocaleString("en-US")),
  rate: known(significant),
  percent: known((value) => String(Math.floor(value * 100 + 0.5))),
  gib: known((value) => significant(value / GIB)),
  ms: known((value) => significant(value * 1000)),
  latency: known((value) => (value < 1 ? `${significant(value * 1000)} ms` : `${significant(value)} s`)),
};

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const index = UNITS.findIndex(([unit, size]) => whole >= size || unit === "s");
  const [unit, size] = UNITS[index];
  let text = `${Math.floor(whole / size)} ${say(unit)}`;
  const smaller = UNITS[index + 1];
  const rest = smaller ? Math.floor((whole % size) / smaller[1]) : 0;
  if (rest) text += ` ${rest} ${say(smaller[0])}`;
  return text;
}

export function ago(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return say("now");
  const [unit, length] = UNITS.find(([name, long]) => size >= long || name === "s");
  const time = `${Math.floor(size / length)} ${say(unit)}`;
  return seconds > 0 ? say("ago", { time }) : say("in", { time });
}

export const isUtc = () => document.documentElement.dataset.utc === "1";

const two = (number) => String(number).padStart(2, "0");

export function parts(date) {
  return isUtc()
    ? [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
    : [date.getFullYear(), date.getMonth() + 1, date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()];
}

export function absolute(date) {
  const [year, month, day, hour, minute, second] = parts(date);
  return `${year}-${two(month)}-${two(day)} ${two(hour)}:${two(minute)}:${two(second)}${isUtc() ? " UTC" : ""}`;
}

export function clock(seconds, withSeconds) {
  const [, month, day, hour, minute, second] = parts(new Date(seconds * 1000));
  if (!withSeconds && hour === 0 && minute === 0) return `${two(month)}-${two(day)}`;
  return `${two(hour)}:${two(minute)}${withSeconds ? `:${two(second)}` : ""}`;
}
