// What is older than the ring of the last minutes: roll-ups, one piece a subject, fetched when the window moves there.
import { Series, view } from "./chart-data.js";

const HOUR_S = 3600;
const DAY_S = 86400;
const LATE_S = 30; // a roll-up is written when its ten seconds are over
const pieces = new Map(); // subject -> { ask, from, to, series }
let wanted = null; // the newest range that was asked for
let loading = false;

export function past(subject) {
  return pieces.get(subject)?.series ?? new Series(10);
}

// Fetches what [from, to] needs of each subject; `drawn` is called when something has come. While it fetches, only the
// newest range that is asked for meanwhile counts.
export async function loadPast(url, subjects, from, to, drawn) {
  wanted = [from, to];
  if (loading) return;
  loading = true;
  try {
    while (wanted) {
      const [first, last] = wanted;
      wanted = null;
      for (const subject of subjects) {
        if (!covers(pieces.get(subject), first, last)) await fetchPiece(url, subject, last);
      }
      drawn();
    }
  } finally {
    loading = false;
  }
}

const span = () => (view.window > HOUR_S ? DAY_S : HOUR_S);

function covers(piece, from, to) {
  const now = Date.now() / 1000;
  return view.end !== null && piece?.ask === span() && piece.from <= from && piece.to >= Math.min(to, now - LATE_S);
}

async function fetchPiece(url, subject, to) {
  const ask = span();
  const now = Date.now() / 1000;
  // room on both sides, so that a small move needs nothing new
  const end = view.end === null ? now : Math.min(now, to + (ask - view.window) / 2);
  const query = new URLSearchParams({ subject, window: ask, ...(view.end === null ? {} : { end: end.toFixed(0) }) });
  const answer = await fetch(`${url}?${query}`).catch(() => null);
  if (!answer?.ok || answer.redirected) return;
  const { samples, step_s: step } = await answer.json();
  const series = new Series(step);
  series.replace(samples);
  pieces.set(subject, { ask, from: end - ask, to: end, series });
}
