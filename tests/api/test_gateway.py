from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.domain.degradation import Step
from controlplane.domain.gateway_state import (
    DeploymentState,
    GatewayState,
    LadderState,
    LeaseState,
    RefusedState,
    ReplicaState,
    TierState,
    WaitingState,
)
from controlplane.lib import gateway_state, keys, valkey, wire
from tests.api.calling import error
from tests.deployments.making import make_deployment

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

CHAT = DeploymentState(
    "chat",
    tiers=(TierState("batch", 2, 4096, 10, 65536, 3.0, 30.0, admitted=7, admitted_per_s=0.5),),
    waiting=(WaitingState("shop", "batch", 2, 900, 3.0),),
    refused=(RefusedState("batch", "queue_full", 4, 0.25),),
    replicas=(ReplicaState("r0", 3, 16, 800, 4000, kv_usage=0.25, preempted=2),),
    ladder=LadderState(1, 1.1, (Step("cap_tokens"), Step("shed", ("batch",)))),
)
LEASE = LeaseState("fair", "shop", "money_per_day", 5_000_000, 250_000, 0)


def publish(state: GatewayState, kept_s: float = gateway_state.KEPT_S) -> None:
    client = valkey.connect()
    client.zadd(keys.gateways(), {state.id: state.started_at})
    client.set(keys.gateway_state(state.id), wire.encode(state), px=int(kept_s * 1000))


def test_gateways_tell_what_they_do_together(viewer: APIClient) -> None:
    publish(GatewayState("g1", 1.0, "0.1.0", "127.0.0.1:8080", 7, (CHAT,), (LEASE,), cut_off_s=2.0))
    publish(GatewayState("g2", 2.0, owns=()), kept_s=gateway_state.KEPT_S - 8)
    told = viewer.get("/api/v1/gateway/").json()
    first, second = told["gateways"]
    assert (first["id"], first["heard"], first["owns"], first["cut_off_s"]) == ("g1", True, None, 2.0)
    assert (second["id"], second["heard"], second["owns"], 8 <= second["age_s"] < 15) == ("g2", False, [], True)
    (lease,) = first["leases"]
    assert (lease["limit"], lease["stock"], lease["left"]) == (5.0, 0.25, None)
    (chat,) = told["deployments"]
    assert (chat["waiting"], chat["wait_ratio"], chat["level"], chat["saturation"]) == (2, 0.1, 1, 1.1)
    assert (chat["running"], chat["seats"], chat["reserved_tokens"], chat["capacity_tokens"]) == (3, 16, 800, 4000)


def test_one_deployment_is_told_whole(viewer: APIClient) -> None:
    make_deployment("chat")
    assert error(viewer.get("/api/v1/gateway/chat/"))["code"] == "nobody_tells"
    assert error(viewer.get("/api/v1/gateway/nobody/"))["code"] == "no_such_deployment"
    publish(GatewayState("g1", 1.0, deployments=(CHAT,)))
    told = viewer.get("/api/v1/gateway/chat/").json()
    assert told["waiting"] == 2
    assert told["who_waits"] == [
        {"tenant": "shop", "tier": "batch", "requests": 2, "tokens": 900, "oldest_wait_s": 3.0}
    ]
    assert told["tiers"][0]["wait_limit_s"] == 30.0
    (replica,) = told["replicas"]
    assert (replica["kv_usage"], replica["preempted"]) == (0.25, 2)
    assert told["refused"] == [{"tier": "batch", "why": "queue_full", "requests": 4, "per_s": 0.25}]
    assert (told["ladder"]["level"], [step["kind"] for step in told["ladder"]["steps"]]) == (1, ["cap_tokens", "shed"])


def test_without_a_gateway_nothing_is_made_up(viewer: APIClient) -> None:
    assert viewer.get("/api/v1/gateway/").json() == {"gateways": [], "deployments": []}
