"""What recorded requests showed, short enough to be kept and sent again in the place of the recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain.capacity.demand import MOST_RATE, Demand
from controlplane.domain.capacity.lengths import MOST_TOKENS, Lengths
from controlplane.domain.errors import RefusedError
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.figures import figure

FIELD = "trace"
_BURSTY = 5.0  # busiest second to mean, from which it is pointed out
_NEAR = 1.0001  # figures are kept with six digits
_RATES = ("peak_requests_per_s", "mean_requests_per_s")
_LENGTHS = ("mean", "mean_square", "p50", "p95", "p99")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Rates in requests a second; the peak is that of the busiest `window_s` seconds.

    `input`, `output` and `decoding_context_tokens` are None where rates alone were recorded; `busiest_second` (requests
    in it) where the times are too coarse. `step_s` is the step that coarse times come in.
    """

    requests: float
    span_s: float
    window_s: float
    peak_requests_per_s: float
    mean_requests_per_s: float
    input: Lengths | None = None
    output: Lengths | None = None
    decoding_context_tokens: float | None = None
    busiest_second: int | None = None
    step_s: float | None = None

    def sentences(self) -> tuple[str, ...]:
        """What was seen, in sentences."""
        peak, mean = self.peak_requests_per_s, self.mean_requests_per_s
        said = [
            f"{self.requests:,.0f} requests in {figure(self.span_s)} s: {figure(mean)} a second on average, "
            f"{figure(peak)} in the busiest {self.window_s:g} s ({peak / mean:.1f} times the mean)."
        ]
        second = self.busiest_second
        if second is not None and self.window_s > 1 and second > _BURSTY * mean:
            said.append(
                f"The busiest second brings {second} requests, {second / mean:.0f} times the mean: the queue has to "
                "take that, or time to first token suffers. Plan with a shorter peak window where it may not."
            )
        if self.step_s is not None:
            said.append(f"Its times come in steps of {figure(self.step_s)} s, so shorter bursts can't be told.")
        return tuple(said)

    def demand(self) -> Demand:
        """The demand of these requests. Raises RefusedError where rates alone were recorded."""
        if self.input is None or self.output is None:
            right = "a trace with lengths, or input_tokens and output_tokens beside it"
            raise RefusedError("capacity", "The trace says nothing about lengths.", fields={FIELD: right})
        return Demand(
            peak_requests_per_s=self.peak_requests_per_s,
            mean_requests_per_s=self.mean_requests_per_s,
            input=self.input,
            output=self.output,
            decoding_context_tokens=self.decoding_context_tokens,
            seen=self.sentences(),
        )


def as_values(found: Recorded) -> dict[str, Any]:
    """It as plain values, which `read` takes back; figures with six digits."""
    values: dict[str, Any] = {
        "requests": round(found.requests),
        "span_s": _short(found.span_s),
        "window_s": _short(found.window_s),
        "peak_requests_per_s": _short(found.peak_requests_per_s),
        "mean_requests_per_s": _short(found.mean_requests_per_s),
        "decoding_context_tokens": _short(found.decoding_context_tokens),
        "busiest_second": found.busiest_second,
        "step_s": _short(found.step_s),
    }
    for name, lengths in (("input", found.input), ("output", found.output)):
        if lengths is not None:
            values[name] = {one: _short(getattr(lengths, one)) for one in _LENGTHS}
    return {name: value for name, value in values.items() if value is not None}


def read(values: Mapping[str, object]) -> Recorded:
    """From `as_values`. Raises RefusedError naming `trace` and what in it can't be."""
    bounds = Bounds("capacity")
    bounds.number("trace.requests", values.get("requests"), 2, 1e13)
    bounds.number("trace.span_s", values.get("span_s"), 0, 1e12, above=True)
    bounds.number("trace.window_s", values.get("window_s"), 0, 1e12, above=True)
    for name in _RATES:
        bounds.number(f"trace.{name}", values.get(name), 0, MOST_RATE, above=True)
    bounds.optional("trace.decoding_context_tokens", values.get("decoding_context_tokens"), 0, 4e7, above=True)
    bounds.optional("trace.step_s", values.get("step_s"), 0, 1e12, above=True)
    second = values.get("busiest_second")
    if second is not None:
        bounds.count("trace.busiest_second", second, 1, 10**9)
    sides = {name: _lengths(values.get(name), f"trace.{name}", bounds) for name in ("input", "output")}
    if (sides["input"] is None) != (sides["output"] is None):
        bounds.refuse("trace.input", values.get("input"), "given together with output")
    _settle(bounds)
    numbers: dict[str, Any] = dict(values)
    if numbers["mean_requests_per_s"] > numbers["peak_requests_per_s"] * _NEAR:
        bounds.refuse("trace.mean_requests_per_s", numbers["mean_requests_per_s"], "at most the peak")
        _settle(bounds)
    return Recorded(
        requests=numbers["requests"],
        span_s=numbers["span_s"],
        window_s=numbers["window_s"],
        peak_requests_per_s=max(numbers["peak_requests_per_s"], numbers["mean_requests_per_s"]),
        mean_requests_per_s=numbers["mean_requests_per_s"],
        input=sides["input"],
        output=sides["output"],
        decoding_context_tokens=None if sides["input"] is None else numbers.get("decoding_context_tokens"),
        busiest_second=numbers.get("busiest_second"),
        step_s=numbers.get("step_s"),
    )


def _lengths(values: object, field: str, bounds: Bounds) -> Lengths | None:
    if values is None:
        return None
    if not isinstance(values, Mapping):
        bounds.refuse(field, values, "an object with mean, mean_square, p50, p95 and p99")
        return None
    before = len(bounds.wrong)
    for name in _LENGTHS:
        most = MOST_TOKENS**2 if name == "mean_square" else MOST_TOKENS
        bounds.number(f"{field}.{name}", values.get(name), 1, most)
    if len(bounds.wrong) > before:
        return None
    found = Lengths(values["mean"], values["mean_square"], values["p95"], "", values["p50"], values["p99"])
    if found.mean_square * _NEAR**2 < found.mean**2:
        bounds.refuse(f"{field}.mean_square", found.mean_square, "at least the square of the mean")
    if not values["p50"] <= values["p95"] <= values["p99"]:
        bounds.refuse(f"{field}.p95", found.p95, "from p50 to p99")
    return found


def _settle(bounds: Bounds) -> None:
    """A refusal at `trace`, whatever in it is wrong."""
    if bounds.wrong:
        name, right = next(iter(bounds.wrong.items()))
        raise RefusedError(
            bounds.code, f"{name} is {bounds.given[name]}, which can't be.", hint=f"{name}: {right}",
            fields={FIELD: f"{name}: {right}"},
        )  # fmt: skip


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
