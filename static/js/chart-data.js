// Samples of the page's subjects in columns, and which part of time is shown: one clock for all charts of a page.
const KEEP_S = 3600;

// One subject over one span, as columns that uPlot takes.
export class Series {
  constructor(step) {
    this.step = step;
    this.t = [];
    this.samples = [];
  }

  replace(samples) {
    this.t = samples.map((sample) => sample.t);
    this.samples = samples;
  }

  push(t, values) {
    const last = this.t.at(-1);
    if (last !== undefined && t <= last) return;
    this.t.push(t);
    this.samples.push(values);
    while (this.t.length > KEEP_S) {
      this.t.shift();
      this.samples.shift();
    }
  }

  // Columns between two moments. Where more than a few steps are missing, a null makes the gap visible.
  columns(fields, from, to) {
    const found = [[], ...fields.map(() => [])];
    let before = null;
    for (let index = this.first(from); index < this.t.length && this.t[index] <= to; index += 1) {
      const t = this.t[index];
      if (before !== null && t - before > this.step * 3) {
        found[0].push(before + this.step);
        for (let field = 0; field < fields.length; field += 1) found[field + 1].push(null);
      }
      found[0].push(t);
      for (let field = 0; field < fields.length; field += 1) found[field + 1].push(this.samples[index][fields[field]] ?? null);
      before = t;
    }
    return found;
  }

  first(from) {
    let low = 0;
    let high = this.t.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.t[middle] < from) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }
}

// One piece after the other; a gap between them stays one.
export function joined(older, newer) {
  if (!older[0].length || !newer[0].length) return older[0].length ? older : newer;
  const gap = newer[0][0] - older[0].at(-1) > 30;
  return older.map((column, index) => [...column, ...(gap ? [index ? null : column.at(-1) + 10] : []), ...newer[index]]);
}

// The window shown: `end` null follows the newest sample.
export const view = { window: 300, end: null };

export function range(newest) {
  const end = view.end ?? newest;
  return [end - view.window, end];
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200];

// At most five moments on the time axis, on round times of the zone shown.
export function timeTicks(from, to, offset) {
  const step = STEPS.find((one) => (to - from) / one <= 5) ?? STEPS.at(-1);
  const found = [];
  for (let t = Math.ceil((from + offset) / step) * step - offset; t <= to; t += step) found.push(t);
  return found.slice(-5);
}

// At most five round values from 0 up to `high`, round in units of `size`; things that are counted get whole numbers.
export function valueTicks(high, size, isWhole) {
  const top = high / size;
  if (!(top > 0)) return [0];
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const fits = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => top / one <= 4.001);
  const step = isWhole ? Math.max(1, Math.ceil(fits)) : fits;
  const found = [];
  for (let value = 0; value <= top * 1.0001; value += step) found.push(value * size);
  return found;
}
