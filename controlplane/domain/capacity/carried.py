"""The other way round: what given cards carry.

at the peak    replicas x a replica's rate x safety factor
on average     replicas x a replica's rate x utilization target
a node lost    the same with the replicas of the other nodes
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.capacity.policy import Policy
from controlplane.domain.capacity.site import Site
from controlplane.domain.capacity.step import Step
from controlplane.domain.capacity.supply import Replica
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.figures import figure
from controlplane.domain.parallelism.hardware import MOST_NODES

_USUAL_SITE = Site()


@dataclass(frozen=True, slots=True)
class Carried:
    """Requests a second within the objective; 0 where no replica fits. `idle_cards` hold no replica."""

    replicas: int
    cards: int
    idle_cards: int
    peak_requests_per_s: float
    mean_requests_per_s: float
    peak_after_node_loss: float
    cost_per_month: float | None
    steps: tuple[Step, ...]
    reasons: tuple[str, ...]


def work_out(replica: Replica, nodes: int, policy: Policy | None = None, site: Site = _USUAL_SITE) -> Carried:
    """What so many nodes of a site carry. Raises RefusedError naming the field that can't be."""
    policy = policy or Policy()
    policy.check()
    site.check()
    bounds = Bounds("capacity")
    bounds.count("nodes", nodes, 1, MOST_NODES)
    bounds.settle()
    replicas = site.room(nodes, replica)
    left = site.room(nodes - 1, replica)
    cards, total = replicas * replica.cards, nodes * site.cards_per_node
    peak = replicas * replica.requests_per_s * policy.safety_factor
    mean = replicas * replica.requests_per_s * policy.utilization_target
    after = left * replica.requests_per_s * policy.safety_factor
    steps = _steps(replica, policy, _room(replica, nodes, site, replicas), (replicas, left), (peak, mean, after))
    price = site.price_per_hour
    return Carried(
        replicas=replicas,
        cards=cards,
        idle_cards=total - cards,
        peak_requests_per_s=peak,
        mean_requests_per_s=mean,
        peak_after_node_loss=after,
        cost_per_month=None if price is None else total * price * policy.hours_per_month,
        steps=steps,
        reasons=_reasons(replica, nodes, replicas, left, total - cards),
    )


def _steps(
    replica: Replica, policy: Policy, room: str, counts: tuple[int, int], rates: tuple[float, float, float]
) -> tuple[Step, ...]:
    (replicas, left), (peak, mean, after) = counts, rates
    each, safety = figure(replica.requests_per_s), f"{policy.safety_factor:g}"
    at_peak = f"Replicas x rate x safety factor: {replicas} x {each} x {safety} = {figure(peak)}."
    target = f"{policy.utilization_target:g}"
    on_average = f"Replicas x rate x utilization target: {replicas} x {each} x {target} = {figure(mean)}."
    lost = f"Replicas that are left x rate x safety factor: {left} x {each} x {safety} = {figure(after)}."
    return (
        Step("replica", "What a replica carries", replica.source, replica.requests_per_s, "requests/s"),
        Step("replicas", "Replicas", room, replicas, "replicas"),
        Step("at_peak", "At the peak", at_peak, peak, "requests/s"),
        Step("on_average", "On average", on_average, mean, "requests/s"),
        Step("after_node_loss", "At the peak with one node lost", lost, after, "requests/s"),
    )


def _room(replica: Replica, nodes: int, site: Site, replicas: int) -> str:
    each = site.replicas_a_node(replica)
    if each:
        return f"Nodes x replicas a node of {site.cards_per_node} cards: {nodes} x {each} = {replicas}."
    return f"Nodes / nodes a replica: {nodes} / {site.nodes_a_replica(replica)}, in whole replicas {replicas}."


def _reasons(replica: Replica, nodes: int, replicas: int, left: int, idle: int) -> tuple[str, ...]:
    found = []
    if not replicas:
        found.append(f"A replica takes {replica.cards} cards, more than there are.")
    elif not left:
        found.append("All replicas are lost with one node: a second one would be needed to survive that.")
    if replicas and idle:
        found.append(f"{idle} {'card is' if idle == 1 else 'cards are'} left over, too few for one more replica.")
    return tuple(found)
