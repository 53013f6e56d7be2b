"""A demand from recorded requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from controlplane.domain.capacity import lengths
from controlplane.domain.capacity.demand import MOST_RATE, Demand
from controlplane.domain.capacity.recorded import Recorded
from controlplane.domain.errors import RefusedError
from controlplane.domain.parallelism.bounds import Bounds

MOST_REQUESTS = 5_000_000
USUAL_WINDOW_S = 60.0  # bursts shorter than a window are left to the queue and to head-room
_COARSE_S = 1.0  # times that are further apart say nothing about single seconds
_RIGHT = "rows of (arrival in seconds, input tokens, output tokens), at least two at different times"
_RIGHT_RATES = "rows of (start of a window in seconds, requests a second in it), rising, at least two"

Row = tuple[float, float, float]  # arrival_s, input_tokens, output_tokens


def demand_of(rows: Iterable[Sequence[float]], *, peak_window_s: float = USUAL_WINDOW_S) -> Demand:
    """The demand of a trace: its mean rate, and that of its busiest `peak_window_s` seconds wherever they begin.

    Raises RefusedError naming `trace` and the row, or `peak_window_s`.
    """
    return recorded(_checked(rows), peak_window_s=peak_window_s).demand()


def recorded(rows: Sequence[Row], *, peak_window_s: float = USUAL_WINDOW_S) -> Recorded:
    """What rows that are numbers in bounds show. Raises RefusedError for fewer than two different times."""
    bounds = Bounds("capacity")
    bounds.number("peak_window_s", peak_window_s, 0, 1e7, above=True)
    arrivals = sorted(row[0] for row in rows)
    span = arrivals[-1] - arrivals[0] if arrivals else 0.0
    if span <= 0:
        bounds.refuse("trace", rows, _RIGHT)
    bounds.settle()
    window = min(peak_window_s, span)
    mean = len(arrivals) / span
    prompts, answers = [row[1] for row in rows], [max(1.0, row[2]) for row in rows]
    met = sum(answer * (prompt + answer / 2) for prompt, answer in zip(prompts, answers, strict=True)) / sum(answers)
    step = min(later - earlier for earlier, later in pairwise(arrivals) if later > earlier)
    coarse = step > _COARSE_S and len(set(arrivals)) < len(arrivals)
    return Recorded(
        requests=len(arrivals),
        span_s=span,
        window_s=window,
        peak_requests_per_s=max(mean, most_within(arrivals, window) / window),
        mean_requests_per_s=mean,
        input=lengths.of_values(prompts, "input_tokens"),
        output=lengths.of_values(answers, "output_tokens"),
        decoding_context_tokens=met,
        busiest_second=None if coarse else most_within(arrivals, 1.0),
        step_s=step if coarse else None,
    )


def of_rates(rows: Sequence[tuple[float, float]]) -> Recorded:
    """What rates of windows show, each (start in seconds, requests a second until the next one starts).

    The last window is as long as the one before. Raises RefusedError naming `trace`.
    """
    bounds = Bounds("capacity")
    starts = [row[0] for row in rows]
    if len(rows) < 2 or any(later <= earlier for earlier, later in pairwise(starts)):
        bounds.refuse("trace", rows, _RIGHT_RATES)
    for number, row in enumerate(rows):
        bounds.number(f"trace[{number}].rate", row[1], 0, MOST_RATE)
    bounds.settle()
    widths = [later - earlier for earlier, later in pairwise(starts)]
    widths.append(widths[-1])
    span = sum(widths)
    requests = sum(width * row[1] for width, row in zip(widths, rows, strict=True))
    if requests < 2:
        bounds.refuse("trace", rows, "rates above 0")
        bounds.settle()
    busiest = max(range(len(rows)), key=lambda number: rows[number][1])
    return Recorded(
        requests=requests,
        span_s=span,
        window_s=widths[busiest],
        peak_requests_per_s=max(rows[busiest][1], requests / span),
        mean_requests_per_s=requests / span,
    )


def most_within(arrivals: Sequence[float], window_s: float) -> int:
    """The most arrivals in any `window_s` seconds (its end not included); `arrivals` in order."""
    most = first = 0
    for last, arrival in enumerate(arrivals):
        while arrivals[first] <= arrival - window_s:
            first += 1
        most = max(most, last - first + 1)
    return most


def _checked(rows: object) -> list[Row]:
    found: list[Row] = []
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise _refused("The trace is no list of requests.")
    for number, row in enumerate(rows):
        if number >= MOST_REQUESTS:
            raise _refused(f"The trace has more than {MOST_REQUESTS:,} rows.")
        if isinstance(row, str | bytes) or not isinstance(row, Sequence) or len(row) < 3:
            raise _refused(f"Row {number + 1} of the trace can't be read.")
        bounds = Bounds("capacity")
        bounds.number(f"trace[{number}].arrival_s", row[0], -1e12, 1e12)
        bounds.number(f"trace[{number}].input_tokens", row[1], 0, lengths.MOST_TOKENS)
        bounds.number(f"trace[{number}].output_tokens", row[2], 0, lengths.MOST_TOKENS)
        bounds.settle()
        found.append((float(row[0]), float(row[1]), float(row[2])))
    return found


def _refused(sentence: str) -> RefusedError:
    hint = "A trace has one row for each request: arrival in seconds, input tokens, output tokens."
    return RefusedError("capacity", sentence, hint=hint, fields={"trace": _RIGHT})
