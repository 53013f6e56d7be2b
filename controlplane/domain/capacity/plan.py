"""From a demand and what one replica carries to replicas and cards, step by step.

at the peak    ceil(peak / (a replica's rate x safety factor))
on average     ceil(mean / (a replica's rate x utilization target))
needed         the larger of both
spare          as many replicas as the fullest node holds, at most as many as are needed (nodes are filled; spread
                   more thinly, fewer would do)
hot            ceil(needed x hot share), at least what the mean takes, and the spare ones; the others are cold
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.capacity.demand import Demand
from controlplane.domain.capacity.policy import Policy
from controlplane.domain.capacity.site import Site
from controlplane.domain.capacity.step import Step, whole
from controlplane.domain.capacity.supply import Replica
from controlplane.domain.errors import RefusedError
from controlplane.domain.parallelism import cost
from controlplane.domain.parallelism.figures import figure

_USUAL_SITE = Site()
MOST_REPLICAS = 10_000_000
_SPIKY = 3.0  # peak to mean, from which hot cards would mostly idle


@dataclass(frozen=True, slots=True)
class Plan:
    """Costs in the price's currency; None without a price. `cost_per_month` is of all cards, hot and cold, held all
    the time; `hot_cost_per_month` of those that always run. `cost_per_million_tokens`: output tokens at the mean load.
    """

    replicas: int
    cards: int
    hot_replicas: int
    hot_cards: int
    cold_replicas: int
    cold_cards: int
    spare_replicas: int
    nodes: int
    utilization_at_peak: float
    utilization_at_mean: float | None
    in_flight_at_peak: float | None
    cost_per_month: float | None
    hot_cost_per_month: float | None
    cost_per_million_tokens: float | None
    steps: tuple[Step, ...]
    reasons: tuple[str, ...]
    advice: tuple[str, ...]


def work_out(demand: Demand, replica: Replica, policy: Policy | None = None, site: Site = _USUAL_SITE) -> Plan:
    """The plan. Raises RefusedError naming the field of a policy or site that can't be."""
    policy = policy or Policy()
    policy.check()
    site.check()
    steps = [Step("replica", "What a replica carries", replica.source, replica.requests_per_s, "requests/s")]
    at_peak = _at_peak(demand, replica, policy, steps)
    at_mean = _at_mean(demand, replica, policy, steps)
    needed = max(at_peak, at_mean, 1)
    spare = _spare(needed, replica, policy, site, steps)
    hot = _hot(needed, at_mean, spare, policy, steps)
    total = _checked(needed + spare)
    cards = total * replica.cards
    working = f"Replicas x cards of each: {total} x {replica.cards} = {cards}."
    steps.append(Step("cards", "Cards", working, cards, "cards"))
    month, hot_month = _month(cards, hot * replica.cards, policy, site, steps)
    carried = total * replica.requests_per_s
    return Plan(
        replicas=total,
        cards=cards,
        hot_replicas=hot,
        hot_cards=hot * replica.cards,
        cold_replicas=total - hot,
        cold_cards=(total - hot) * replica.cards,
        spare_replicas=spare,
        nodes=_nodes(total, spare, replica, site),
        utilization_at_peak=demand.peak_requests_per_s / carried,
        utilization_at_mean=_share(demand.mean_requests_per_s, carried),
        in_flight_at_peak=_in_flight(demand, replica, steps),
        cost_per_month=month,
        hot_cost_per_month=hot_month,
        cost_per_million_tokens=_per_million(demand, cards, site),
        steps=tuple(steps),
        reasons=_reasons(demand, at_peak, at_mean, spare, total - hot),
        advice=(*policy.advice(), *_advice(demand)),
    )


def _checked(replicas: int) -> int:
    if replicas <= MOST_REPLICAS:
        return replicas
    right = f"what {MOST_REPLICAS:,} replicas carry, at most"
    sentence = f"{replicas:,} replicas would be needed, which can't be meant."
    raise RefusedError("capacity", sentence, fields={"peak_requests_per_s": right})


def _nodes(replicas: int, spare: int, replica: Replica, site: Site) -> int:
    """Nodes that the replicas take; spare ones that share a node with all others would be lost with it."""
    found = site.nodes_for(replicas, replica)
    return max(found, 2) if spare and site.replicas_a_node(replica) else found


def _at_peak(demand: Demand, replica: Replica, policy: Policy, steps: list[Step]) -> int:
    counted = replica.requests_per_s * policy.safety_factor
    found = whole(demand.peak_requests_per_s / counted)
    working = (
        f"Peak / (a replica's rate x safety factor): {figure(demand.peak_requests_per_s)} / "
        f"({figure(replica.requests_per_s)} x {policy.safety_factor:g}) = "
        f"{figure(demand.peak_requests_per_s / counted)}, in whole replicas {found}."
    )
    steps.append(Step("at_peak", "Replicas at the peak", working, found, "replicas"))
    return found


def _at_mean(demand: Demand, replica: Replica, policy: Policy, steps: list[Step]) -> int:
    """0 where the mean is not known."""
    mean = demand.mean_requests_per_s
    if mean is None:
        return 0
    counted = replica.requests_per_s * policy.utilization_target
    found = whole(mean / counted)
    working = (
        f"Mean / (a replica's rate x utilization target): {figure(mean)} / ({figure(replica.requests_per_s)} x "
        f"{policy.utilization_target:g}) = {figure(mean / counted)}, in whole replicas {found}."
    )
    steps.append(Step("on_average", "Replicas on average", working, found, "replicas"))
    return found


def _spare(needed: int, replica: Replica, policy: Policy, site: Site, steps: list[Step]) -> int:
    if not policy.survive_node_loss:
        return 0
    lost = site.lost_with_a_node(replica)
    found = min(lost, needed)
    if lost > needed:
        working = f"A node has room for {lost} replicas, more than the {needed} needed: as many again are kept."
    else:
        working = f"A node takes {lost} with it when it is lost: as many more are kept."
    steps.append(Step("spare", "Spare for one node lost", working, found, "replicas"))
    return found


def _hot(needed: int, at_mean: int, spare: int, policy: Policy, steps: list[Step]) -> int:
    share = min(needed, whole(needed * policy.hot_share))
    by_mean = min(needed, at_mean)
    found = max(share, by_mean) + spare
    if by_mean > share:
        working = f"The hot share of {needed} is {share}, the mean takes {by_mean}; with {spare} spare ones {found}."
    else:
        working = f"Needed x hot share: {needed} x {policy.hot_share:g} = {share}; with {spare} spare ones {found}."
    steps.append(Step("hot", "Hot replicas", working, found, "replicas"))
    cold = needed + spare - found
    working = f"All less the hot ones: {needed + spare} - {found} = {cold}."
    steps.append(Step("cold", "Cold replicas", working, cold, "replicas"))
    return found


def _month(
    cards: int, hot_cards: int, policy: Policy, site: Site, steps: list[Step]
) -> tuple[float | None, float | None]:
    price = site.price_per_hour
    if price is None:
        return None, None
    hours = policy.hours_per_month
    found, hot = cards * price * hours, hot_cards * price * hours
    working = f"Cards x price an hour x hours: {cards} x {price:g} x {hours:g} = {figure(found)}."
    steps.append(Step("cost", "Cost a month, all cards held", working, found, "currency"))
    working = f"Hot cards x price an hour x hours: {hot_cards} x {price:g} x {hours:g} = {figure(hot)}."
    steps.append(Step("hot_cost", "Cost a month of hot cards alone", working, hot, "currency"))
    return found, hot


def _in_flight(demand: Demand, replica: Replica, steps: list[Step]) -> float | None:
    """Requests at once at the peak, by Little's law at the replica's own times."""
    if replica.in_flight is None:
        return None
    stay_s = replica.in_flight / replica.requests_per_s
    found = demand.peak_requests_per_s * stay_s
    working = f"Peak x seconds a request: {figure(demand.peak_requests_per_s)} x {figure(stay_s)} = {figure(found)}."
    steps.append(Step("in_flight", "Requests in flight at the peak, at most", working, found, "requests"))
    return found


def _per_million(demand: Demand, cards: int, site: Site) -> float | None:
    mean = demand.mean_requests_per_s or demand.peak_requests_per_s
    return cost.per_million_tokens(cards, site.price_per_hour, mean * demand.output.mean)


def _reasons(demand: Demand, at_peak: int, at_mean: int, spare: int, cold: int) -> tuple[str, ...]:
    found = []
    if at_mean > at_peak:
        found.append("The mean load decides: at the utilization target it takes more replicas than the peak does.")
    else:
        found.append("The peak decides.")
    if spare:
        found.append("One node may be lost at the peak without leaving the objective.")
    if cold:
        found.append(
            f"Cold replicas are started for the peak, {cold} of them; their cards serve offline work or other models "
            "in between, or are handed back."
        )
    return tuple(dict.fromkeys((*found, *demand.assumptions())))


def _advice(demand: Demand) -> tuple[str, ...]:
    mean = demand.mean_requests_per_s
    if mean is None or demand.peak_requests_per_s < _SPIKY * mean:
        return ()
    ratio = demand.peak_requests_per_s / mean
    return (f"The peak is {ratio:.1f} times the mean: a larger cold pool, or batch work beside, would use the cards.",)


def _share(part: float | None, whole_: float) -> float | None:
    return None if part is None else part / whole_
