// How a chart looks: colours and lines from the style sheet, axes with units and at most five ticks.
import { timeTicks, valueTicks } from "./chart-data.js";
import { drawMarks } from "./chart-marks.js";
import { clock, isUtc } from "./format.js";
import { say } from "./strings.js";

const SIZES = { percent: 0.01, gib: 1024 ** 3 }; // of one unit at the axis

export function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// The options of one chart; `moved` is called with the index under the shared cursor.
export function options(chart, moved) {
  const { spec, plot } = chart;
  const text = colour("text-3");
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: text, font, grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  const offset = isUtc() ? 0 : -new Date().getTimezoneOffset() * 60;
  const dashes = { solid: undefined, dashed: [6, 3], dotted: [2, 3] };
  return {
    width: plot.clientWidth,
    height: plot.clientHeight,
    padding: [20, 10, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "page" }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { x: { time: true, auto: false }, y: { range: (_u, _low, high) => [0, spec.top ?? ((high ?? 0) > 0 ? high * 1.08 : 1)] } },
    axes: [
      {
        ...axis, size: 22, gap: 4, label: say(isUtc() ? "time_utc" : "time_local"), labelSize: 16, labelGap: 0, labelFont: font,
        splits: (u) => timeTicks(u.scales.x.min, u.scales.x.max, offset),
        values: (_u, ticks) => ticks.map((t) => clock(t, ticks.length > 1 && ticks[1] - ticks[0] < 60)),
      },
      { ...axis, size: 44, gap: 6, splits: (_u, _i, _low, high) => valueTicks(high, SIZES[spec.form] ?? 1, spec.form === "count"), values: (u, ticks) => tickTexts(chart, u, ticks) },
    ],
    series: [{}, ...spec.series.map((line) => ({
      stroke: colour(`series-${line.colour}`), width: line.thin ? 1 : 1.5, dash: dashes[line.dash], points: { show: false }, spanGaps: false,
      fill: spec.series.length === 1 ? `color-mix(in srgb, ${colour(`series-${line.colour}`)} 12%, transparent)` : undefined,
    }))],
    hooks: { setCursor: [(u) => moved(chart, u.cursor.idx)], draw: [(u) => drawMarks(u, text)] },
  };
}

function tickTexts(chart, u, ticks) {
  const { form, unit } = chart.spec;
  const inMs = form === "latency" && (u.scales.y.max ?? 0) < 1;
  chart.unit.textContent = inMs ? "ms" : unit;
  if (!chart.none.hidden) return ticks.map(() => "");
  const size = inMs ? 1e-3 : (SIZES[form] ?? 1);
  return ticks.map((value) => (value / size).toLocaleString("en-US", { maximumSignificantDigits: 3 }));
}
