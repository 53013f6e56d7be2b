"""The load that a question asks for: its lengths and rates, from means, percentiles or a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from controlplane.deployments.planner.fields import BY_NAME
from controlplane.deployments.planner.inputs import Inputs
from controlplane.domain.capacity import demand as demands
from controlplane.domain.capacity import lengths
from controlplane.domain.capacity.demand import Demand
from controlplane.domain.capacity.lengths import Lengths
from controlplane.domain.capacity.recorded import Recorded
from controlplane.domain.parallelism.figures import figure
from controlplane.domain.performance.setup import Workload

Source = Literal["usual", "mean", "percentiles", "trace"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Rates in requests a second, None = not given. `notes` say what was taken for what was not given."""

    input: Lengths
    output: Lengths
    input_source: Source
    output_source: Source
    peak_requests_per_s: float | None
    mean_requests_per_s: float | None
    rates_from_trace: bool
    decoding_context_tokens: float | None
    trace: Recorded | None
    notes: tuple[str, ...]

    @property
    def request_tokens(self) -> int:
        """A mean prompt and answer."""
        return max(1, round(self.input.mean + self.output.mean))

    @property
    def seen(self) -> tuple[str, ...]:
        """What the trace showed."""
        return () if self.trace is None else self.trace.sentences()

    def workload(self) -> Workload:
        """Lengths for the latency model, the context that decoding requests are met with among them."""
        return self._demand(1.0, None).workload()

    def demand(self) -> Demand | None:
        """What is planned for; None where no rate is known. Raises RefusedError naming a rate that can't be."""
        if self.peak_requests_per_s is None:
            return None
        return self._demand(self.peak_requests_per_s, self.mean_requests_per_s)

    def warning(self, max_model_len: int) -> str:
        """What is wrong with the longest requests; the empty text where nothing is known to be."""
        if self.input.p99 is None or self.output.p99 is None:
            return ""
        longest = self.input.p99 + self.output.p99
        if longest <= max_model_len:
            return ""
        return (
            f"A prompt and an answer at their 99th percentiles have {figure(round(longest))} tokens together, more "
            f"than the {figure(max_model_len)} of max_model_len: such requests are refused or cut."
        )

    def _demand(self, peak: float, mean: float | None) -> Demand:
        found = demands.of_rates(peak, mean, self.input, self.output)
        return Demand(
            found.peak_requests_per_s, found.mean_requests_per_s, self.input, self.output, self.decoding_context_tokens
        )


def of(inputs: Inputs, *, writes: bool = True) -> Asked:
    """The load; of a model that `writes` nothing an answer is one step long. Raises RefusedError naming a length that
    can't be."""
    trace = inputs.trace
    notes: list[str] = []
    context: float | None = None
    answers_from: Source
    prompts, prompts_from = _side(inputs, "input", notes)
    if writes:
        answers, answers_from = _side(inputs, "output", notes)
    else:
        answers, answers_from = lengths.of_mean(1.0, "output_tokens"), "usual"
        notes.append(
            "The model answers with one vector or score: output_tokens are not counted, and its times are predicted as "
            "those in which a model that writes reads a prompt."
        )
    if trace is not None and trace.input is not None and trace.output is not None:
        context = trace.decoding_context_tokens
    peak, mean = inputs.peak_requests_per_s, inputs.mean_requests_per_s
    from_trace = trace is not None and peak is None
    if trace is not None and from_trace:
        peak, mean = trace.peak_requests_per_s, trace.mean_requests_per_s if mean is None else mean
    return Asked(prompts, answers, prompts_from, answers_from, peak, mean, from_trace, context, trace, tuple(notes))


def _side(inputs: Inputs, side: Literal["input", "output"], notes: list[str]) -> tuple[Lengths, Source]:
    recorded = None if inputs.trace is None else getattr(inputs.trace, side)
    if recorded is not None:
        return recorded, "trace"
    field = f"{side}_tokens"
    percentiles = inputs.percentiles(side)
    if percentiles:
        found = lengths.of_percentiles(percentiles, field)
        source: Source = "percentiles"
    else:
        given = inputs.input_tokens if side == "input" else inputs.output_tokens
        usual = BY_NAME[field].usual or 1
        if given is None:
            notes.append(f"{field} is not given; {usual:g} was taken.")
        found = lengths.of_mean(usual if given is None else given, field)
        source = "usual" if given is None else "mean"
    if found.assumption:
        notes.append(found.assumption)
    return found, source
