"""Demands and replicas for tests of capacity."""

from __future__ import annotations

from controlplane.domain.capacity import demand, lengths
from controlplane.domain.capacity.demand import Demand
from controlplane.domain.capacity.policy import Policy
from controlplane.domain.capacity.supply import Replica


def make_demand(
    peak: float = 100.0, mean: float | None = None, *, input_tokens: float = 1000, output_tokens: float = 300
) -> Demand:
    return demand.of_rates(
        peak, mean, lengths.of_mean(input_tokens, "input_tokens"), lengths.of_mean(output_tokens, "output_tokens")
    )


def make_replica(requests_per_s: float = 10.0, cards: int = 1, nodes: int = 1) -> Replica:
    return Replica(requests_per_s, cards, "given", in_flight=40.0, nodes=nodes)


def make_policy(
    safety: float = 1.0, utilization: float = 1.0, hot: float = 0.7, *, survive_node_loss: bool = False
) -> Policy:
    return Policy(safety, utilization, hot, survive_node_loss)
