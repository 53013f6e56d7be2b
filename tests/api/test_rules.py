from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.accounts.services import keys, tenants
from controlplane.deployments.controller import documents
from controlplane.deployments.models import Deployment
from controlplane.domain.admission.policy import TenantShare
from controlplane.domain.degradation import Ladder, Step
from controlplane.domain.quotas.quota import Price, Quota
from controlplane.domain.routing import RoutingSnapshot
from controlplane.journal.models import Event
from controlplane.journal.services.record import SYSTEM
from controlplane.lib import wire
from tests.api.calling import error
from tests.deployments.making import make_deployment

pytestmark = [pytest.mark.django_db, pytest.mark.services]
TIER = {
    "weight": 2.5, "queue_most": 7, "queue_most_bytes": 4096, "longest_wait_s": 1.5, "total_base_s": 20,
    "total_per_token_s": 0.1, "kv_share": 0.5,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _world(db: None) -> None:
    make_deployment("chat")
    make_deployment("small")
    for name in ("shop", "team"):
        tenants.apply(actor=SYSTEM, name=name)


def snapshot() -> RoutingSnapshot:
    """The published snapshot as a gateway reads it."""
    return wire.decode(documents.build_snapshot(0.0).encode(1, 0.0), RoutingSnapshot)


def test_a_tier_is_as_built_in_until_somebody_changes_it(operator: APIClient) -> None:
    url = "/api/v1/tiers/batch/"
    first = operator.get(url)
    assert (first.json()["version"], first.json()["set_by"]) == (0, "built_in")
    assert snapshot().deployments["chat"].tiers == ()
    edited = {**first.json(), "weight": 2.5}
    made = operator.put(url, edited, headers={"If-None-Match": "*"})
    assert (made.status_code, made.json()["version"], made.json()["weight"]) == (201, 1, 2.5)
    assert operator.put(url, edited).headers["X-Headworks-Changed"] == "false"
    assert {tier.name: tier.weight for tier in snapshot().deployments["chat"].tiers}["batch"] == 2.5
    assert [operator.delete(url).status_code for _ in range(2)] == [204, 204]
    assert operator.get(url).json()["version"] == 0
    assert error(operator.delete("/api/v1/tiers/vip/"))["code"] == "no_such_tier"


def test_the_built_in_tiers_are_listed_and_say_that_they_are(operator: APIClient) -> None:
    def told(**query: str) -> list[tuple[str, str | None, str, float]]:
        rows = operator.get("/api/v1/tiers/", query).json()["results"]
        return [(row["name"], row["deployment"], row["set_by"], row["kv_share"]) for row in rows]

    built_in = [("interactive", None, "built_in", 1.0), ("standard", None, "built_in", 1.0)]
    assert told() == [*built_in, ("batch", None, "built_in", 0.8)]
    operator.put("/api/v1/tiers/batch/", TIER)
    operator.put("/api/v1/deployments/chat/tiers/standard/", TIER)
    assert told() == [*built_in, ("batch", None, "all", 0.5), ("standard", "chat", "deployment", 0.5)]
    assert [row[:3] for row in told(deployment="chat")] == [
        ("interactive", "chat", "built_in"), ("standard", "chat", "deployment"), ("batch", "chat", "all"),
    ]  # fmt: skip
    first = operator.get("/api/v1/tiers/", {"limit": 3}).json()
    second = operator.get(first["next"]).json()
    assert (first["count"], [row["deployment"] for row in second["results"]], second["next"]) == (4, ["chat"], None)
    assert operator.get(second["previous"]).json()["results"] == first["results"]


def test_a_share_of_the_kv_cache_that_is_left_out_stays_as_it_would_be_without_the_rules(operator: APIClient) -> None:
    body = {name: value for name, value in TIER.items() if name != "kv_share"}
    assert operator.put("/api/v1/tiers/batch/", body).json()["kv_share"] == 0.8
    assert operator.put("/api/v1/tiers/standard/", body).json()["kv_share"] == 1.0
    operator.put("/api/v1/tiers/batch/", {**TIER, "kv_share": 0.7})
    own = "/api/v1/deployments/chat/tiers/batch/"
    assert operator.put(own, body).json()["kv_share"] == 0.7
    pool = Deployment.objects.get(name="chat").pool
    operator.put(f"/api/v1/pools/{pool.name}/", {"batch_kv_share": 0.6})
    assert operator.put(own, body).json()["kv_share"] == 0.6
    assert operator.put("/api/v1/tiers/batch/", body).json()["kv_share"] == 0.8


def test_what_is_told_of_a_tier_is_what_gateways_get(operator: APIClient) -> None:
    def agree(name: str) -> list[tuple[str, float]]:
        used = [(one.name, one.kv_share) for one in snapshot().deployments[name].tiers]
        urls = [f"/api/v1/deployments/{name}/tiers/{tier}/" for tier in ("interactive", "standard", "batch")]
        told = [operator.get(url).json() for url in urls]
        assert [(one["name"], one["kv_share"]) for one in told] == used
        return used

    pool = Deployment.objects.get(name="chat").pool
    operator.put(f"/api/v1/pools/{pool.name}/", {"batch_kv_share": 0.6})
    assert agree("chat")[2] == ("batch", 0.6)
    operator.put("/api/v1/tiers/batch/", TIER)
    assert agree("chat")[2] == ("batch", 0.6)
    operator.put("/api/v1/deployments/chat/tiers/batch/", TIER)
    assert (agree("chat")[2], agree("small")[2]) == (("batch", 0.5), ("batch", 0.6))


def test_a_deployment_has_its_own_tier(operator: APIClient) -> None:
    url = "/api/v1/deployments/chat/tiers/interactive/"
    before = operator.get(url).json()
    assert (before["version"], before["set_by"], before["deployment"]) == (0, "built_in", "chat")
    assert operator.put(url, TIER).status_code == 201
    deployments = snapshot().deployments
    own = {tier.name: tier.queue_most for tier in deployments["chat"].tiers}
    assert (own["interactive"], len(own)) == (7, 3)
    assert {tier.name: tier.queue_most for tier in deployments["small"].tiers}["interactive"] == 256
    told = Event.objects.get(object_kind="tier")
    assert (told.verb, told.object_id, told.deployment) == ("tier.created", "chat/interactive", "chat")


@pytest.mark.parametrize(
    ("field", "value"),
    [("weight", 0), ("weight", "1"), ("queue_most", -1), ("queue_most", 1.5), ("longest_wait_s", 1e9),
     ("kv_share", 0), ("kv_share", True), ("total_base_s", None), ("wait", 1)],
)  # fmt: skip
def test_a_wrong_field_of_a_tier_is_named(operator: APIClient, field: str, value: object) -> None:
    answer = operator.put("/api/v1/tiers/batch/", {**TIER, field: value})
    assert answer.status_code == 400
    assert field in error(answer)["details"]["fields"]
    assert error(operator.put("/api/v1/tiers/vip/", TIER))["code"] == "no_such_tier"


def test_a_change_on_an_older_version_is_refused(operator: APIClient) -> None:
    url = "/api/v1/tiers/batch/"
    tag = operator.put(url, TIER).headers["ETag"]
    operator.put(url, {**TIER, "weight": 3})
    answer = operator.put(url, {**TIER, "weight": 4}, headers={"If-Match": tag})
    assert answer.status_code == 412
    assert error(answer)["details"]["changed_by"] == "operator-1/test"


def test_a_quota_reaches_the_gateways(administrator: APIClient) -> None:
    key, _ = keys.create(actor=SYSTEM, tenant="shop", name="app")
    url = "/api/v1/tenants/shop/quotas/daily/"
    body = {"requests_per_minute": 60, "money_per_month": 12.5, "key_id": key.pk, "deployment": "chat"}
    made = administrator.put(url, body)
    assert made.status_code == 201, made.content
    shown = made.json()
    assert (shown["requests_per_minute"], shown["money_per_month"], shown["tokens_per_day"]) == (60, 12.5, None)
    assert administrator.put(url, shown).headers["X-Headworks-Changed"] == "false"
    (quota,) = snapshot().quotas
    assert quota == Quota(
        quota.id, "daily", "shop", str(key.pk), "chat", {"requests_per_minute": 60, "money_per_month": 12_500_000}
    )
    assert administrator.get("/api/v1/quotas/", {"tenant": "team"}).json()["count"] == 0
    assert administrator.delete(url).status_code == 204
    assert snapshot().quotas == ()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "limits"),
        ({"requests_per_minute": -1}, "requests_per_minute"),
        ({"tokens_per_day": 2**60}, "tokens_per_day"),
        ({"money_per_day": 1e12}, "money_per_day"),
        ({"requests_per_hour": 1}, "requests_per_hour"),
    ],
)
def test_a_wrong_limit_is_named(administrator: APIClient, body: dict[str, object], field: str) -> None:
    answer = administrator.put("/api/v1/tenants/shop/quotas/q/", body)
    assert answer.status_code == 400
    assert field in error(answer)["details"]["fields"]


def test_a_quota_of_a_foreign_key_or_of_nothing_is_refused(administrator: APIClient) -> None:
    key, _ = keys.create(actor=SYSTEM, tenant="team", name="app")
    url = "/api/v1/tenants/shop/quotas/q/"
    assert error(administrator.put(url, {"tokens_per_day": 1, "key_id": key.pk}))["code"] == "no_such_key"
    assert error(administrator.put(url, {"tokens_per_day": 1, "deployment": "x"}))["code"] == "no_such_deployment"
    assert administrator.put("/api/v1/tenants/nobody/quotas/q/", {"tokens_per_day": 1}).status_code == 404


def test_more_than_the_whole_is_guaranteed_only_expressly(administrator: APIClient) -> None:
    shop, team = (f"/api/v1/tenants/{name}/shares/chat/" for name in ("shop", "team"))
    assert administrator.put(shop, {"guaranteed": 0.7}).status_code == 201
    answer = administrator.put(team, {"guaranteed": 0.4})
    assert answer.status_code == 409
    assert error(answer)["message"] == "Others are guaranteed 70% of chat already, so 30% is left."
    sold = administrator.put(team, {"guaranteed": 0.4, "override": True})
    assert sold.json()["guaranteed_sum"] == pytest.approx(1.1)
    assert snapshot().deployments["chat"].shares["team"] == TenantShare(1.0, 0.4, 1.0)
    assert error(administrator.put(team, {"guaranteed": 0.4, "most": 0.3}))["details"]["fields"].keys() == {"most"}


def test_a_ladder_reaches_the_gateways(operator: APIClient) -> None:
    url = "/api/v1/deployments/chat/ladder/"
    steps = [{"kind": "cap_tokens"}, {"kind": "divert", "deployment": "small"}, {"kind": "shed", "tiers": ["batch"]}]
    made = operator.put(url, {"steps": steps})
    assert made.status_code == 201, made.content
    assert operator.put(url, made.json()).headers["X-Headworks-Changed"] == "false"
    assert snapshot().deployments["chat"].ladder == Ladder(
        (Step("cap_tokens"), Step("divert", deployment="small"), Step("shed", ("batch",)))
    )
    assert snapshot().deployments["small"].ladder is None


def test_a_step_has_what_its_kind_uses_and_anything_else_is_refused_at_its_field(operator: APIClient) -> None:
    url = "/api/v1/deployments/chat/ladder/"
    steps: list[dict[str, Any]] = [
        {"kind": "cap_tokens", "max_tokens": 64},
        {"kind": "divert", "deployment": "small"},
        {"kind": "shed"},
    ]
    told = operator.put(url, {"steps": steps}).json()["steps"]
    assert [(step["max_tokens"], step["deployment"]) for step in told] == [(64, None), (None, "small"), (None, None)]
    wrong = [{**steps[0], "deployment": "small"}, {**steps[1], "max_tokens": 64}, {**steps[2], "max_tokens": 512}]
    assert error(operator.put(url, {"steps": wrong}))["details"]["fields"] == {
        "steps.0.deployment": "Only a step of the kind divert uses it; leave it out.",
        "steps.1.max_tokens": "Only a step of the kind cap_tokens uses it; leave it out.",
        "steps.2.max_tokens": "Only a step of the kind cap_tokens uses it; leave it out.",
    }


@pytest.mark.parametrize(
    "step",
    [{"kind": "jump"}, {"kind": "divert", "deployment": "chat"}, {"kind": "divert", "deployment": "gone"}, {},
     {"kind": "shed", "tiers": ["vip"]}, {"kind": "cap_tokens", "max_tokens": 0}, "cap_tokens", None],
)  # fmt: skip
def test_a_step_that_can_not_be_is_refused(operator: APIClient, step: object) -> None:
    assert operator.put("/api/v1/deployments/chat/ladder/", {"steps": [step]}).status_code == 400


def test_a_price_and_the_tier_of_a_key_reach_the_gateways(administrator: APIClient) -> None:
    key, _ = keys.create(actor=SYSTEM, tenant="shop", name="app")
    price = {"prompt_per_million": 0.15, "completion_per_million": 0.6}
    assert administrator.put("/api/v1/deployments/chat/price/", price).status_code == 201
    url = f"/api/v1/tenants/shop/keys/{key.pk}/tier/"
    assert administrator.get(url).json() == {"tier": "standard", "version": 0}
    assert administrator.put(url, {"tier": "batch"}).status_code == 201
    assert "tier" in error(administrator.put(url, {"tier": "vip"}))["details"]["fields"]
    found = snapshot()
    assert found.deployments["chat"].price == Price(0.15, 0.6)
    assert found.keys[key.key_hash].tier == "batch"


def test_how_fast_a_deployment_is_meant_to_be_reaches_the_gateways(operator: APIClient) -> None:
    url = "/api/v1/deployments/chat/slo/"
    assert operator.get(url).status_code == 404
    assert operator.put(url, {"ttft_s": 1.5}).status_code == 201
    assert operator.get(url).json() == {"deployment": "chat", "ttft_s": 1.5, "tpot_s": None, "version": 1}
    assert (snapshot().deployments["chat"].ttft_target_s, snapshot().deployments["chat"].tpot_target_s) == (1.5, None)
    assert operator.put(url, {"ttft_s": 1.5, "tpot_s": 0.08}).status_code == 200
    assert snapshot().deployments["chat"].tpot_target_s == 0.08
    assert operator.delete(url).status_code == 204
    assert snapshot().deployments["chat"].ttft_target_s is None


@pytest.mark.parametrize("wrong", [{"ttft_s": 0}, {"ttft_s": -1}, {"tpot_s": 1e9}, {"tpot_s": "fast"}])
def test_an_absurd_objective_is_refused_by_its_field(operator: APIClient, wrong: dict[str, object]) -> None:
    refused = operator.put("/api/v1/deployments/chat/slo/", wrong)
    assert refused.status_code == 400 and list(error(refused)["details"]["fields"]) == list(wrong)


def test_rules_go_with_what_they_belong_to(administrator: APIClient) -> None:
    administrator.put("/api/v1/tenants/shop/quotas/q/", {"tokens_per_day": 5})
    administrator.put("/api/v1/tenants/shop/shares/chat/", {"guaranteed": 0.5})
    assert administrator.delete("/api/v1/tenants/shop/").status_code == 204
    assert snapshot().quotas == ()
    assert snapshot().deployments["chat"].shares == {}


def test_rules_of_a_removed_deployment_are_gone(administrator: APIClient, operator: APIClient) -> None:
    administrator.put("/api/v1/tenants/shop/quotas/q/", {"tokens_per_day": 5, "deployment": "small"})
    steps = [{"kind": "divert", "deployment": "small"}]
    operator.put("/api/v1/deployments/chat/ladder/", {"steps": steps})
    operator.put("/api/v1/deployments/small/ladder/", {"steps": [{"kind": "shed", "tiers": ["batch"]}]})
    Deployment.objects.filter(name="small").update(revision=None)  # as the controller removes it
    Deployment.objects.get(name="small").delete()
    assert snapshot().quotas == ()
    assert [row["deployment"] for row in operator.get("/api/v1/ladders/").json()["results"]] == ["chat"]


def test_a_pool_keeps_kv_tokens_from_batch_unless_the_deployment_says_otherwise(operator: APIClient) -> None:
    def shares() -> dict[str, float]:
        found = snapshot().deployments
        own = {name: {tier.name: tier.kv_share for tier in one.tiers} for name, one in found.items()}
        return {name: tiers["batch"] for name, tiers in own.items()}

    pool = Deployment.objects.get(name="chat").pool
    url = f"/api/v1/pools/{pool.name}/"
    assert operator.get(url).json()["batch_kv_share"] is None
    assert operator.put(url, {"batch_kv_share": 0.6}).json()["batch_kv_share"] == 0.6
    assert shares() == {"chat": 0.6, "small": 0.6}
    operator.put("/api/v1/deployments/chat/tiers/batch/", TIER)
    assert shares() == {"chat": 0.5, "small": 0.6}
    assert operator.put(url, {"batch_kv_share": 1.5}).status_code == 400
    assert operator.put(url, {}).json()["batch_kv_share"] is None
    assert shares() == {"chat": 0.5, "small": 0.8}
