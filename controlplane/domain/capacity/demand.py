"""What is asked: requests a second at the peak and on average, and how long they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controlplane.domain.capacity.lengths import Lengths
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.performance.setup import Workload

MOST_RATE = 1e7  # requests a second


@dataclass(frozen=True, slots=True)
class Demand:
    """Rates in requests a second; `mean_requests_per_s` None = not known. `seen` says what a trace showed."""

    peak_requests_per_s: float
    mean_requests_per_s: float | None
    input: Lengths
    output: Lengths
    decoding_context_tokens: float | None = None  # where prompts and answers of single requests are known
    seen: tuple[str, ...] = ()

    def workload(self) -> Workload:
        """Mean lengths, and the mean context of a decoding request.

        That is met at a random moment, so an answer of o tokens counts o times:
        E[o x (i + o/2)] / E[o], which is E[i] + E[o^2] / (2 E[o]) where prompts say nothing about answers.
        """
        context = self.decoding_context_tokens
        if context is None:
            context = self.input.mean + self.output.mean_square / (2 * self.output.mean)
        return Workload(self.input.mean, self.output.mean, context)

    def times(self, factor: float) -> Demand:
        """The same requests, `factor` times as many."""
        mean = self.mean_requests_per_s
        return replace(
            self,
            peak_requests_per_s=self.peak_requests_per_s * factor,
            mean_requests_per_s=None if mean is None else mean * factor,
        )

    def assumptions(self) -> tuple[str, ...]:
        """What was taken because it was not given."""
        found = [text for text in (self.input.assumption, self.output.assumption) if text]
        if self.mean_requests_per_s is None:
            found.append("The mean rate is not given; only the peak was planned for.")
        return (*found, *self.seen)


def of_rates(
    peak_requests_per_s: float, mean_requests_per_s: float | None, input_lengths: Lengths, output_lengths: Lengths
) -> Demand:
    """A demand from its rates. Raises RefusedError naming the field, also where the mean is above the peak."""
    bounds = Bounds("capacity")
    bounds.number("peak_requests_per_s", peak_requests_per_s, 0, MOST_RATE, above=True)
    bounds.optional("mean_requests_per_s", mean_requests_per_s, 0, MOST_RATE, above=True)
    bounds.settle()
    if mean_requests_per_s is not None and mean_requests_per_s > peak_requests_per_s:
        bounds.refuse("mean_requests_per_s", mean_requests_per_s, f"at most the peak, {peak_requests_per_s:g}")
        bounds.settle()
    return Demand(peak_requests_per_s, mean_requests_per_s, input_lengths, output_lengths)
