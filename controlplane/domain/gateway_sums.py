"""What several gateway processes tell, as one: sums, the longest wait, the highest step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from controlplane.domain.gateway_state import (
    MOST_WAITING,
    DeploymentState,
    Heard,
    QuotaRefusedState,
    RefusedState,
    ReplicaState,
    TierState,
    WaitingState,
    sum_of_known,
)

T = TypeVar("T")
K = TypeVar("K")


def deployments(heard: Iterable[Heard]) -> dict[str, DeploymentState]:
    """Returns each deployment as all gateways together have it: of those that are heard, and of silent ones only what
    nobody else tells."""
    told: dict[str, list[DeploymentState]] = {}
    for one in sorted(heard, key=lambda one: not one.is_fresh):
        for state in one.state.deployments:
            if one.is_fresh or state.name not in told:
                told.setdefault(state.name, []).append(state)
    return {name: merged(states) for name, states in sorted(told.items())}


def merged(states: Sequence[DeploymentState]) -> DeploymentState:
    """Returns one deployment that several processes decide for, each for its own requests."""
    if len(states) == 1:
        return states[0]
    waiting = sorted(
        _by(states, lambda one: one.waiting, lambda one: (one.tenant, one.tier), _waiting_sum),
        key=lambda one: -one.oldest_wait_s,
    )
    ladders = [state.ladder for state in states if state.ladder is not None]
    return DeploymentState(
        states[0].name,
        tiers=_by(states, lambda one: one.tiers, lambda one: one.name, _tier_sum),
        waiting=tuple(waiting[:MOST_WAITING]),
        refused=_by(states, lambda one: one.refused, lambda one: (one.tier, one.why), _refused_sum),
        replicas=_by(states, lambda one: one.replicas, lambda one: one.id, _replica_sum),
        ladder=max(ladders, key=lambda one: (one.level, one.saturation or 0.0), default=None),
    )


def _by(
    states: Sequence[DeploymentState],
    parts: Callable[[DeploymentState], Iterable[T]],
    key: Callable[[T], K],
    add: Callable[[T, T], T],
) -> tuple[T, ...]:
    found: dict[K, T] = {}
    for state in states:
        for part in parts(state):
            name = key(part)
            found[name] = add(found[name], part) if name in found else part
    return tuple(found.values())


def _tier_sum(one: TierState, other: TierState) -> TierState:
    return replace(
        one,
        waiting=one.waiting + other.waiting,
        waiting_bytes=one.waiting_bytes + other.waiting_bytes,
        oldest_wait_s=_most(one.oldest_wait_s, other.oldest_wait_s),
        admitted=one.admitted + other.admitted,
        admitted_per_s=sum_of_known((one.admitted_per_s, other.admitted_per_s)),
    )


def _waiting_sum(one: WaitingState, other: WaitingState) -> WaitingState:
    return replace(
        one,
        requests=one.requests + other.requests,
        tokens=one.tokens + other.tokens,
        oldest_wait_s=max(one.oldest_wait_s, other.oldest_wait_s),
    )


def _refused_sum(one: RefusedState, other: RefusedState) -> RefusedState:
    return replace(one, requests=one.requests + other.requests, per_s=sum_of_known((one.per_s, other.per_s)))


def _replica_sum(one: ReplicaState, other: ReplicaState) -> ReplicaState:
    return replace(
        one,
        running=one.running + other.running,
        seats=max(one.seats, other.seats),
        reserved_tokens=one.reserved_tokens + other.reserved_tokens,
        leaving=one.leaving and other.leaving,
        resting=one.resting or other.resting,
        kv_usage=_most(one.kv_usage, other.kv_usage),
        preempted=_sum_of_known(one.preempted, other.preempted),
    )


def quotas_refused(heard: Iterable[Heard]) -> list[QuotaRefusedState]:
    """Returns what all gateways together refused for quotas, the most first."""
    found: dict[tuple[str, str, str], QuotaRefusedState] = {}
    for one in (told for other in heard for told in other.state.quotas_refused):
        address = (one.tenant, one.quota, one.measure)
        before = found.get(address)
        found[address] = (
            one
            if before is None
            else replace(before, requests=before.requests + one.requests, per_s=sum_of_known((before.per_s, one.per_s)))
        )
    return sorted(found.values(), key=lambda one: -one.requests)


def _sum_of_known(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def _most(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)
