// Revisions, decisions and failures on the time axis: a line, and a button that tells why.
import { absolute } from "./format.js";

const LETTERS = { revision: "R", decision: "D", failure: "F" };
const HALF = 8; // of a mark's width
let marks = [];
let card = null;

export async function loadMarks(url) {
  if (!url) return;
  const answer = await fetch(url);
  if (answer.ok) marks = (await answer.json()).marks;
}

const shown = (u) => marks.filter(({ t }) => t >= u.scales.x.min && t <= u.scales.x.max);

export function drawMarks(u, stroke) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = devicePixelRatio;
  for (const mark of shown(u)) {
    ctx.setLineDash(mark.kind === "revision" ? [] : [3 * devicePixelRatio, 3 * devicePixelRatio]);
    const x = Math.round(u.valToPos(mark.t, "x", true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

export function buildMarks(chart, tabbable) {
  const wanted = shown(chart.u);
  const buttons = [...chart.plot.querySelectorAll(".chart-mark")];
  while (buttons.length > wanted.length) buttons.pop().remove();
  while (buttons.length < wanted.length) buttons.push(newButton(chart, tabbable));
  // the unit stands above the left edge: a mark there moves beside it, its line stays where it is
  const beside = chart.unit.hidden ? 0 : chart.unit.offsetLeft + chart.unit.offsetWidth + HALF + 2;
  wanted.forEach((mark, index) => {
    const button = buttons[index];
    button.mark = mark;
    button.dataset.kind = mark.kind;
    button.setAttribute("aria-label", `${mark.title}, ${absolute(new Date(mark.t * 1000))}`);
    button.textContent = LETTERS[mark.kind] ?? "";
    const left = chart.u.valToPos(mark.t, "x") + chart.u.bbox.left / devicePixelRatio;
    button.style.left = `${Math.max(left, beside)}px`;
  });
}

function newButton(chart, tabbable) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "chart-mark";
  if (!tabbable) button.tabIndex = -1;
  button.addEventListener("click", () => tell(button));
  chart.plot.append(button);
  return button;
}

function tell(button) {
  if (!card) {
    card = document.createElement("div");
    card.className = "mark-card";
    card.popover = "auto";
    card.tabIndex = -1;
    document.body.append(card);
  }
  const { mark } = button;
  const [title, time, text] = ["b", "p", "p"].map((name) => document.createElement(name));
  title.textContent = mark.title;
  time.className = "muted small";
  time.textContent = absolute(new Date(mark.t * 1000));
  text.textContent = mark.text;
  card.replaceChildren(title, time, text);
  card.showPopover();
  const place = button.getBoundingClientRect();
  card.style.top = `${Math.min(place.bottom + 6, innerHeight - card.offsetHeight - 8)}px`;
  card.style.left = `${Math.max(8, Math.min(place.left - 20, innerWidth - card.offsetWidth - 8))}px`;
  card.focus();
}
