from __future__ import annotations

from controlplane.domain import gateway_state, gateway_sums
from controlplane.domain.degradation import Step
from controlplane.domain.gateway_state import (
    DeploymentState,
    GatewayState,
    Heard,
    LadderState,
    RefusedState,
    ReplicaState,
    TierState,
    WaitingState,
)


def make_state(name: str = "chat", **fields: object) -> DeploymentState:
    return DeploymentState(name, **fields)  # type: ignore[arg-type]


def heard(*states: DeploymentState, fresh: bool = True, started_at: float = 0.0) -> Heard:
    return Heard(GatewayState("g", started_at, deployments=states), 0.5 if fresh else 9.0, fresh)


def test_several_processes_of_a_deployment_are_one() -> None:
    first = make_state(
        tiers=(TierState("batch", 2, 20, 10, 100, 1.0, 5.0, admitted=3, admitted_per_s=0.5),),
        waiting=(WaitingState("shop", "batch", 2, 200, 1.0),),
        refused=(RefusedState("batch", "queue_full", 1, 0.1),),
        replicas=(ReplicaState("r0", 3, 8, 300, 1000),),
        ladder=LadderState(0, 0.4),
    )
    second = make_state(
        tiers=(TierState("batch", 1, 5, 10, 100, 4.0, 5.0, admitted=1, admitted_per_s=0.25),),
        waiting=(WaitingState("shop", "batch", 1, 50, 4.0), WaitingState("team", "batch", 1, 5, 2.0)),
        refused=(RefusedState("batch", "expired", 2),),
        replicas=(ReplicaState("r0", 1, 8, 100, 1000), ReplicaState("r1", 0, 8, 0, 1000)),
        ladder=LadderState(1, 1.1, (Step("cap_tokens"),)),
    )
    found = gateway_sums.deployments([heard(first), heard(second)])["chat"]
    assert found.tiers == (TierState("batch", 3, 25, 10, 100, 4.0, 5.0, admitted=4, admitted_per_s=0.75),)
    assert [(one.tenant, one.requests, one.tokens) for one in found.waiting] == [("shop", 3, 250), ("team", 1, 5)]
    assert {(one.why, one.requests) for one in found.refused} == {("queue_full", 1), ("expired", 2)}
    assert (found.running, found.seats, found.reserved_tokens, found.capacity_tokens) == (4, 16, 400, 2000)
    assert found.ladder == second.ladder
    assert (found.wait_ratio, found.refused_per_s) == (0.8, 0.1)


def test_a_silent_gateway_tells_only_what_nobody_else_tells() -> None:
    silent = heard(make_state("chat", tiers=(TierState("batch", 9),)), make_state("old"), fresh=False)
    now = heard(make_state("chat", tiers=(TierState("batch", 1),)))
    for order in ([silent, now], [now, silent]):
        found = gateway_sums.deployments(order)
        assert {name: state.requests_waiting for name, state in found.items()} == {"chat": 1, "old": 0}


def test_what_is_not_known_is_not_zero() -> None:
    state = make_state(replicas=(ReplicaState("r0", 1, 8, 100),), tiers=(TierState("batch"),))
    assert state.capacity_tokens is None and state.wait_ratio is None
    assert state.admitted_per_s is None and state.refused_per_s is None
    assert make_state(tiers=(TierState("batch", admitted_per_s=1.0),)).refused_per_s == 0.0


def test_codes_have_few_names_in_a_chart() -> None:
    codes = ("queue_full", "queue_bytes", "too_slow", "expired", "shed", "no_replica", "new")
    assert [gateway_state.reason(code) for code in codes] == ["room", "room", "wait", "wait", "shed", "other", "other"]
