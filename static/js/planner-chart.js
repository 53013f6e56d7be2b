// One curve of the planner against the requests at once: logarithmic x, the knee and the objective as named lines.
import { colour } from "./chart-look.js";
import { significant } from "./format.js";

const alive = [];

// Ticks at 1, 2, 5, 10 … as many as five.
function powers(low, high) {
  const found = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const one of [1, 2, 5]) if (one * power >= low * 0.999 && one * power <= high * 1.001) found.push(one * power);
  }
  const step = Math.ceil(found.length / 5);
  return found.filter((_value, index) => index % step === 0);
}

function ticks(high) {
  const rough = high / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => high / one <= 4.001);
  const found = [];
  for (let value = 0; value <= high * 1.0001; value += step) found.push(value);
  return found;
}

function lines(u, spec) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const mark of spec.marks) {
    const x = u.valToPos(mark.x, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = colour("text-2");
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const isRight = x > bbox.left + bbox.width * 0.8;
    ctx.textAlign = isRight ? "right" : "left";
    ctx.fillText(mark.label, x + (isRight ? -4 : 4) * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
  }
  const y = spec.limit === null ? NaN : u.valToPos(spec.limit, "y", true);
  if (y >= bbox.top && y <= bbox.top + bbox.height) {
    ctx.strokeStyle = ctx.fillStyle = colour("danger");
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.textAlign = "left";
    ctx.fillText(spec.limit_label, bbox.left + 4 * devicePixelRatio, y - 4 * devicePixelRatio);
  }
  ctx.restore();
}

function options(figure, plot, spec) {
  const text = colour("text-3");
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: text, font, grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  const value = figure.querySelector("[data-chart-value]");
  const x = spec.x;
  const told = (index) => { value.textContent = significant(spec.y[index]); };
  const knee = spec.marks.length ? x.reduce((best, one, index) => (Math.abs(one - spec.marks[0].x) < Math.abs(x[best] - spec.marks[0].x) ? index : best), 0) : x.length - 1;
  told(knee);
  return {
    width: plot.clientWidth,
    height: plot.clientHeight,
    padding: [12, 10, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "planner" }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: false, distr: 3, range: () => [x[0], x.at(-1)] },
      y: { range: (_u, _low, high) => [0, high > 0 ? high * 1.1 : 1] },
    },
    axes: [
      { ...axis, size: 22, gap: 4, label: spec.x_label, labelSize: 16, labelGap: 0, labelFont: font, splits: () => powers(x[0], x.at(-1)), filter: (_u, found) => found, values: (_u, found) => found.map((one) => one.toLocaleString("en-US")) },
      { ...axis, size: 52, gap: 6, splits: (_u, _i, _low, high) => ticks(high), values: (_u, found) => found.map((one) => one.toLocaleString("en-US", { maximumSignificantDigits: 3 })) },
    ],
    series: [
      {},
      { stroke: colour(`series-${spec.key}`), width: 2, points: { show: true, size: 5 } },
      ...(spec.before ? [{ stroke: text, width: 1, dash: [3, 4], points: { show: false } }] : []),
    ],
    hooks: { setCursor: [(u) => told(u.cursor.idx ?? knee)], draw: [(u) => lines(u, spec)] },
  };
}

export function drawCurves(holder) {
  for (const one of alive.splice(0)) one.destroy();
  for (const figure of holder.querySelectorAll("[data-planner-chart]")) {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const plot = figure.querySelector(".chart-plot");
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", `${spec.title}, ${spec.unit}: ${spec.x.map((x, index) => `${significant(x)}: ${significant(spec.y[index])}`).join("; ")}`);
    alive.push(new uPlot(options(figure, plot, spec), [spec.x, spec.y, ...(spec.before ? [spec.before] : [])], plot));
  }
}

export function resizeCurves() {
  for (const one of alive) one.setSize({ width: one.root.parentElement.clientWidth, height: one.root.parentElement.clientHeight });
}
