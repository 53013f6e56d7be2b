"""The budget of one accelerator: what an engine asks for, what is taken off, what stays for the cache.

    requested = ceil(total x utilization)
    available = requested - weights - non-torch - activation peak - graphs (where they count) - adapters - reserve

A hard cap (`--kv-cache-memory-bytes`) takes the place of all of this: available = cap.
Source: vLLM's worker (`determine_available_memory`) and the start-up logs of its older versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from controlplane.domain.footprint import activation, overhead, weights
from controlplane.domain.footprint.activation import ActivationPeak
from controlplane.domain.footprint.weights import WeightShare
from controlplane.domain.ledger.corrections import NO_CORRECTION, Correction
from controlplane.domain.ledger.setup import Setup

_USUAL_POSITIONS = 32768  # of a model whose limit is not known: none of the last years has a smaller one
PartName = Literal[
    "foreign", "weights", "adapters", "non_torch", "activation", "graphs", "kv_cache", "reserve", "unused"
]


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of one accelerator's memory."""

    name: PartName
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes of one accelerator. None = the card's memory is not known.

    `graphs_bytes` are always there; `graphs_inside` says whether they count in the budget or come on top of it.
    """

    total_bytes: int | None
    requested_bytes: int | None
    weights: WeightShare
    weights_bytes: int  # with what was learned from earlier starts
    non_torch_bytes: int
    activation: ActivationPeak
    activation_bytes: int
    graphs_bytes: int
    graphs_inside: bool
    adapter_bytes: int
    foreign_bytes: int
    reserve_bytes: int
    available_bytes: int | None
    capped: bool

    @property
    def before_cache_bytes(self) -> int:
        """What the engine has to hold besides the cache while it profiles."""
        parts = self.weights_bytes + self.non_torch_bytes + self.activation_bytes + self.adapter_bytes
        return parts + (self.graphs_bytes if self.graphs_inside else 0)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Who holds what, for a stacked bar. Adds up to the card's memory; where it is overfull, `unused` is 0.

        Without a card the bar is as long as what is asked for.
        """
        held: list[tuple[PartName, int]] = [
            ("foreign", self.foreign_bytes),
            ("weights", self.weights_bytes),
            ("adapters", self.adapter_bytes),
            ("non_torch", self.non_torch_bytes),
            ("activation", self.activation_bytes),
            ("graphs", self.graphs_bytes),
            ("kv_cache", max(0, self.available_bytes or 0)),
            ("reserve", self.reserve_bytes),
        ]
        rest = (self.total_bytes or 0) - sum(size for _, size in held)
        return tuple(Part(name, size) for name, size in [*held, ("unused", max(0, rest))] if size)

    @property
    def held_bytes(self) -> int:
        """What it holds for good beside the cache."""
        return self.weights_bytes + self.non_torch_bytes + self.adapter_bytes + self.graphs_bytes


def work_out(setup: Setup, correction: Correction = NO_CORRECTION) -> Budget:
    """The budget of a set-up, with a correction learned from measured starts of its kind."""
    wishes, card, rules = setup.wishes, setup.card, setup.rules
    share, found, stage_peak = _fullest(setup)
    graphs = _graphs(setup)
    adapters = overhead.adapter_bytes(setup.model, adapters=wishes.adapters, rank=wishes.adapter_rank)
    adapters //= setup.tensor_parallel
    non_torch = overhead.non_torch_bytes(
        rules, setup.tensor_parallel, setup.pipeline_parallel, linked=card.linked, desktop=card.is_desktop
    )
    loaded = round(share.on_accelerator_bytes * correction.weights_ratio)
    peak = max(0, stage_peak + correction.other_bytes)
    used = loaded + non_torch + peak + adapters + (graphs if rules.graphs_inside_budget else 0)
    requested = None if card.total_bytes is None else ceil(card.total_bytes * setup.utilization)
    available = None if requested is None else requested - used - wishes.reserve_bytes
    cap = setup.kv_cap_bytes
    if setup.model.keeps_nothing:  # no cache is made, however much would be left for it
        available = cap = None if available is None else 0
    return Budget(
        total_bytes=card.total_bytes,
        requested_bytes=requested,
        weights=share,
        weights_bytes=loaded,
        non_torch_bytes=non_torch,
        activation=found,
        activation_bytes=peak,
        graphs_bytes=graphs,
        graphs_inside=rules.graphs_inside_budget,
        adapter_bytes=adapters,
        foreign_bytes=wishes.foreign_bytes,
        reserve_bytes=wishes.reserve_bytes,
        available_bytes=available if cap is None else cap,
        capped=cap is not None,
    )


def stage_shares(setup: Setup) -> tuple[WeightShare, ...]:
    """What one rank of each stage of the pipeline loads."""
    return weights.shares(
        setup.model,
        setup.precision,
        tensor_parallel=setup.tensor_parallel,
        pipeline_parallel=setup.pipeline_parallel,
        own_draft=setup.draft is not None and setup.draft.own,
        other_draft_bytes=setup.draft.weight_bytes if setup.draft else 0,
        offload_bytes=setup.wishes.cpu_offload_bytes,
        positions=max(setup.max_model_len, _USUAL_POSITIONS),
    )


def _fullest(setup: Setup) -> tuple[WeightShare, ActivationPeak, int]:
    """Weights, activations and their peak on the stage that holds most of both: the last one samples too."""
    stages = []
    for share in dict.fromkeys(stage_shares(setup)):
        found = _activation(setup, share)
        stages.append((share, found, found.peak_bytes if share.last else found.without_sampling_bytes))
    return max(stages, key=lambda stage: stage[0].on_accelerator_bytes + stage[2])


def _activation(setup: Setup, share: WeightShare) -> ActivationPeak:
    return activation.peak(
        setup.model,
        setup.rules,
        batched_tokens=setup.max_num_batched_tokens,
        sequences=setup.max_num_seqs,
        tensor_parallel=setup.tensor_parallel,
        element_bytes=setup.precision.plain_bytes,
        multimodal_tokens=setup.multimodal_tokens,
        visiting_layer_bytes=share.visiting_layer_bytes,
    )


def _graphs(setup: Setup) -> int:
    return overhead.graph_bytes(
        setup.model,
        setup.rules,
        tensor_parallel=setup.tensor_parallel,
        sequences=setup.max_num_seqs,
        eager=setup.enforce_eager,
        speculative=setup.draft is not None,
    )
