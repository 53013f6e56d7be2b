"""How long one step of an engine takes.

time = max(bytes / bandwidth, FLOPs / compute) + communication + kernel launches + host work a step and a request,
with learned efficiencies. The maximum is smoothed (root of the sum of squares), as kernels of both kinds take turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

from controlplane.domain.performance import classes, coefficients, communication, number_formats, work
from controlplane.domain.performance.setup import Setup
from controlplane.domain.specs.model import ModelFacts

PARTS = ("memory", "experts", "kv", "compute", "communication", "launch", "host", "requests", "interference")


@dataclass(frozen=True, slots=True)
class Rates:
    """Everything that does not depend on the load. Seconds; of one card, for one stage of a pipeline."""

    work: work.Work
    stages: int
    dense_s: float
    experts_s: float  # all experts of the card
    kv_s_per_byte: float
    token_s: float  # multiplying one token with the active weights
    attention_s: float  # one token of a prompt with one token of context
    reduce_s: float
    reduce_s_per_token: float
    launch_s: float
    host_s: float
    request_s: float
    interference: float
    first_s: float
    first: float
    wave: float  # share of requests that come all at once, as those of closed loops with equal lengths do
    alike: float  # exponent: tokens of a batch choose experts as so many independent ones would
    accepted: float  # tokens of one request that a step yields (1 without speculation)
    verified: float  # tokens of one request that a step computes


@dataclass(frozen=True, slots=True)
class Step:
    """One step in seconds, by part. `overlapped` is what compute adds to reading."""

    memory: float
    experts: float
    kv: float
    compute: float
    communication: float
    launch: float
    host: float
    requests: float

    @property
    def seconds(self) -> float:
        """The whole step; its parts follow one another, but for what overlaps."""
        return (
            self.memory + self.experts + self.kv + self.compute + self.communication + self.launch + self.host
            + self.requests
        )  # fmt: skip


def rates(
    model: ModelFacts, setup: Setup, weights: number_formats.WeightFormat, learned: coefficients.Coefficients
) -> Rates:
    """Rates of one set-up."""
    names = classes.of(model, setup, weights)

    def term(name: str) -> float:
        return coefficients.value(learned, name, names)

    def share(name: str) -> float:
        return coefficients.share(learned, name, names)

    amount = work.of(model, setup, weights)
    traffic = communication.of(model, setup)
    card = setup.accelerator
    bandwidth = card.bandwidth_bytes_per_s
    flops = number_formats.peak_flops(weights, card)
    layers = model.num_hidden_layers / setup.pipeline_parallel
    wide = card.bf16_flops or card.fp16_flops or flops
    return Rates(
        work=amount,
        stages=setup.pipeline_parallel,
        dense_s=amount.dense_bytes / (bandwidth * share("weights")),
        experts_s=amount.expert_bytes / (bandwidth * share("experts")),
        kv_s_per_byte=1.0 / (bandwidth * share("kv")),
        token_s=amount.flops_per_token / (flops * share("compute")),
        attention_s=amount.attention_flops / (wide * term("attention")),
        reduce_s=traffic.rounds * term("reduce_s"),
        reduce_s_per_token=traffic.bytes_per_token / (traffic.link_bytes_per_s * share("link")),
        launch_s=layers * term("launch_s"),
        host_s=term("host_s") / setup.pipeline_parallel,
        request_s=term("sequence_s"),
        interference=term("interference"),
        first_s=term("first_s"),
        first=term("first"),
        wave=share("wave"),
        alike=min(1.0, term("alike")),
        accepted=term("accepted") if setup.speculative else 1.0,
        verified=4.0 if setup.speculative else 1.0,
    )


def decode(speed: Rates, requests: float, context_tokens: float) -> Step:
    """One step in which each of `requests` requests gets its next token (or tokens, with speculation)."""
    return Step(*_parts(speed, requests, context_tokens, 0.0, 0.0))


def mixed_s(speed: Rates, requests: float, context_tokens: float, prompt_tokens: float, prompt_length: float) -> float:
    """Seconds of a step that also takes `prompt_tokens` tokens of prompts that are `prompt_length` tokens long."""
    memory, experts, kv, compute, communication, launch, host, each = _parts(
        speed, requests, context_tokens, prompt_tokens, prompt_length
    )
    return memory + experts + kv + compute + communication + launch + host + each


def _parts(
    speed: Rates, requests: float, context: float, prompt_tokens: float, prompt_length: float
) -> tuple[float, float, float, float, float, float, float, float]:
    """A step's parts in the order of `Step`: a steady state takes thousands of them, and seconds alone of half."""
    amount = speed.work
    requests = requests / speed.stages
    prompt_tokens = prompt_tokens / speed.stages
    tokens = requests * speed.verified + prompt_tokens
    own = requests / amount.kv_copies
    memory = speed.dense_s
    experts = speed.experts_s * amount.expert_share_touched(tokens**speed.alike) if amount.expert_share else 0.0
    kv = own * amount.kv_bytes_of(context) * speed.kv_s_per_byte
    reading = memory + experts + kv
    computing = tokens * speed.token_s + prompt_tokens * prompt_length / 2 * speed.attention_s
    n = speed.stages
    return (
        memory * n,
        experts * n,
        kv * n,
        (sqrt(reading * reading + computing * computing) - reading) * n,
        (speed.reduce_s + tokens * speed.reduce_s_per_token) * n,
        speed.launch_s * n,
        speed.host_s * n,
        requests * speed.request_s * n,
    )


def scaled(speed: Rates, factors: dict[str, float]) -> Rates:
    """The same rates with parts made slower by factors (of `PARTS`): what calibration changes."""

    def times(part: str) -> float:
        return factors.get(part, 1.0)

    return replace(
        speed,
        dense_s=speed.dense_s * times("memory"),
        experts_s=speed.experts_s * times("experts"),
        kv_s_per_byte=speed.kv_s_per_byte * times("kv"),
        token_s=speed.token_s * times("compute"),
        attention_s=speed.attention_s * times("compute"),
        reduce_s=speed.reduce_s * times("communication"),
        reduce_s_per_token=speed.reduce_s_per_token * times("communication"),
        launch_s=speed.launch_s * times("launch"),
        host_s=speed.host_s * times("host"),
        request_s=speed.request_s * times("requests"),
        interference=speed.interference * times("interference"),
    )
