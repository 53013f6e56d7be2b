"""A demand from recorded requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.domain.capacity import lengths
from controlplane.domain.capacity.demand import Demand
from controlplane.domain.errors import RefusedError
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.figures import figure

MOST_REQUESTS = 5_000_000
USUAL_WINDOW_S = 60.0  # bursts shorter than a window are left to the queue and to head-room
_RIGHT = "rows of (arrival in seconds, input tokens, output tokens), at least two at different times"
_BURSTY = 5.0  # busiest second to mean, from which it is pointed out

Row = tuple[float, float, float]  # arrival_s, input_tokens, output_tokens


def demand_of(rows: Iterable[Sequence[float]], *, peak_window_s: float = USUAL_WINDOW_S) -> Demand:
    """The demand of a trace: its mean rate, and that of its busiest `peak_window_s` seconds wherever they begin.

    Raises RefusedError naming `trace` and the row, or `peak_window_s`.
    """
    checked = _checked(rows)
    bounds = Bounds("capacity")
    bounds.number("peak_window_s", peak_window_s, 0, 1e7, above=True)
    arrivals = sorted(row[0] for row in checked)
    span = arrivals[-1] - arrivals[0] if arrivals else 0.0
    if span <= 0:
        bounds.refuse("trace", checked, _RIGHT)
    bounds.settle()
    window = min(peak_window_s, span)
    mean = len(arrivals) / span
    peak = max(mean, most_within(arrivals, window) / window)
    prompts, answers = [row[1] for row in checked], [max(1.0, row[2]) for row in checked]
    met = sum(answer * (prompt + answer / 2) for prompt, answer in zip(prompts, answers, strict=True)) / sum(answers)
    return Demand(
        peak_requests_per_s=peak,
        mean_requests_per_s=mean,
        input=lengths.of_values(prompts, "input_tokens"),
        output=lengths.of_values(answers, "output_tokens"),
        decoding_context_tokens=met,
        seen=_seen(arrivals, mean, peak, window),
    )


def most_within(arrivals: Sequence[float], window_s: float) -> int:
    """The most arrivals in any `window_s` seconds (its end not included); `arrivals` in order."""
    most = first = 0
    for last, arrival in enumerate(arrivals):
        while arrivals[first] <= arrival - window_s:
            first += 1
        most = max(most, last - first + 1)
    return most


def _seen(arrivals: Sequence[float], mean: float, peak: float, window: float) -> tuple[str, ...]:
    said = [
        f"{len(arrivals):,} requests in {figure(arrivals[-1] - arrivals[0])} s: {figure(mean)} a second on average, "
        f"{figure(peak)} in the busiest {window:g} s ({peak / mean:.1f} times the mean)."
    ]
    second = most_within(arrivals, 1.0)
    if window > 1 and second > _BURSTY * mean:
        said.append(
            f"The busiest second brings {second} requests, {second / mean:.0f} times the mean: the queue has to take "
            "that, or time to first token suffers. Plan with a shorter peak window where it may not."
        )
    return tuple(said)


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
