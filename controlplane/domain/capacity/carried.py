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
    each = figure(replica.requests_per_s)
    steps = (
        Step("What a replica carries", replica.source, replica.requests_per_s, "requests/s"),
        Step("Replicas", _room(replica, nodes, site, replicas), replicas, "replicas"),
        Step(
            "At the peak", f"{replicas} x {each} x safety {policy.safety_factor:g} = {figure(peak)}", peak, "requests/s"
        ),
        Step(
            "On average",
            f"{replicas} x {each} x utilization {policy.utilization_target:g} = {figure(mean)}",
            mean,
            "requests/s",
        ),
        Step(
            "At the peak with one node lost",
            f"{left} x {each} x safety {policy.safety_factor:g} = {figure(after)}",
            after,
            "requests/s",
        ),
    )
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


def _room(replica: Replica, nodes: int, site: Site, replicas: int) -> str:
    each = site.replicas_a_node(replica)
    if each:
        return f"{nodes} x ({site.cards_per_node} cards // {replica.cards}) = {replicas}"
    spanned = site.nodes_a_replica(replica)
    return f"{nodes} nodes // {spanned} nodes a replica = {replicas}"


def _reasons(replica: Replica, nodes: int, replicas: int, left: int, idle: int) -> tuple[str, ...]:
    found = []
    if not replicas:
        found.append(f"A replica takes {replica.cards} cards, more than there are.")
    elif not left:
        found.append("All replicas are lost with one node: a second one would be needed to survive that.")
    if replicas and idle:
        found.append(f"{idle} {'card is' if idle == 1 else 'cards are'} left over, too few for one more replica.")
    return tuple(found)
