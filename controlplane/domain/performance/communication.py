"""What the ranks of one copy say to each other in a step.

Two all-reduces a layer with tensor parallelism (after attention and after the feed-forward part). Each has a latency
that grows with the logarithm of the ranks, and moves 2 (n - 1) / n of the activations over the link (ring). Attention
that is data parallel gathers and scatters the tokens of all ranks instead, which moves as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from controlplane.domain.performance.setup import Setup
from controlplane.domain.specs.model import ModelFacts

BRIDGE_CARDS = 2  # a fabric of so many cards is a bridge that most machines do without
USUAL_PCIE_BYTES_PER_S = 25e9


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of one step: `rounds` latencies (log2(ranks) an all-reduce), and bytes of each token over a link."""

    rounds: float
    bytes_per_token: float
    link_bytes_per_s: float


def of(model: ModelFacts, setup: Setup) -> Traffic:
    """Traffic of tensor parallelism and, between the stages of a pipeline, of one hand-over a stage."""
    ranks = setup.tensor_parallel
    hidden_bytes = 2.0 * model.hidden_size
    rounds = 2.0 * model.num_hidden_layers * log2(ranks) if ranks > 1 else 0.0
    ring = 2.0 * (ranks - 1) / ranks * 2.0 * model.num_hidden_layers * hidden_bytes
    stages = setup.pipeline_parallel - 1
    return Traffic(rounds + stages, ring + stages * hidden_bytes, link_bytes_per_s(setup))


def link_bytes_per_s(setup: Setup) -> float:
    """Bytes a second in one direction between the ranks of one copy: over a fabric where it joins them all."""
    card = setup.accelerator
    joined = card.link_group or 0
    if card.link_bytes_per_s and joined > BRIDGE_CARDS and setup.tensor_parallel <= joined:
        return card.link_bytes_per_s
    return card.pcie_bytes_per_s or card.link_bytes_per_s or USUAL_PCIE_BYTES_PER_S
