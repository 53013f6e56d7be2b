"""One of everything, with secrets that are known, so that every address has something to answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.accounts.models import User
from controlplane.accounts.services import keys, tenants, tokens
from controlplane.catalog.models import Model, Variant
from controlplane.deployments.models import Deployment, LedgerRow, Replica, ReplicaTransition
from controlplane.deployments.services import deployments
from controlplane.domain.degradation import Ladder, Step
from controlplane.domain.quotas.quota import Price
from controlplane.fleet.models import Accelerator, ModelFiles, Reservation
from controlplane.journal.services import record
from controlplane.journal.services.record import SYSTEM
from controlplane.traffic.models import UsageMinute
from controlplane.traffic.services import ladders, quotas, shares, slos, tiers
from controlplane.traffic.services.quotas import QuotaWish
from controlplane.traffic.services.shares import ShareWish
from controlplane.traffic.services.tiers import TierWish
from tests.api.calling import make_user
from tests.deployments.making import ADA, make_deployment, make_external_wish, make_node, make_pool, make_replica


@dataclass(frozen=True)
class World:
    """`arguments`: what stands for each argument of a URL; `secrets`: what no answer may hold."""

    arguments: dict[str, Any]
    secrets: list[str]


def make_world() -> World:
    make_users()
    node = make_node("n1")
    deployment = make_deployment("chat", settings={"max_num_seqs": 16})
    make_external()
    replica = make_ready_replica(deployment, node)
    tenant = tenants.apply(actor=SYSTEM, name="demo").row
    key, key_text = keys.create(actor=SYSTEM, tenant="demo", name="app")
    token, token_text = tokens.create(actor=SYSTEM, username="administrator-1", name="ci")
    make_journal(3)
    make_usage(3)
    make_rules("chat", "demo")
    card = Accelerator.objects.filter(node=node)[0]
    arguments = {
        "name": {"deployments": "chat", "nodes": "n1", "models": "smollm2", "pools": "default", "tenants": "demo"},
        "username": "viewer-1",
        "model": "smollm2",
        "variant": "bf16",
        "tenant": "demo",
        "uuid": card.uuid,
        "replica_id": replica.pk,
        "id": {"replicas": replica.pk, "tokens": token.pk, "tenants": key.pk},
        "key_id": key.pk,
        "deployment": "chat",
        "tier": "batch",
        "quota": "daily",
        "place": 1,
        "token_id": token.pk,
        "pk": tenant.pk,
    }
    hashes = [key.key_hash, token.token_hash, *User.objects.values_list("password", flat=True)]
    secrets = [key_text, token_text, replica.key, "sk-external-secret", *hashes]
    return World(arguments, secrets)


def make_users() -> None:
    for role in ("viewer", "operator", "administrator"):
        make_user(role)


def make_external(name: str = "outside") -> Deployment:
    wish = make_external_wish(external_key="sk-external-secret")
    return deployments.apply(actor=ADA, name=name, wish=wish).deployment


def make_ready_replica(deployment: Deployment, node: Any) -> Replica:
    card = Accelerator.objects.filter(node=node, reservations=None)[0]
    assigned = [{"uuid": card.uuid, "kind": card.kind, "address": card.address}]
    replica = make_replica(
        deployment, node=node, state="ready", assigned=assigned, url="http://127.0.0.1:9", log_tail=["up"]
    )
    Reservation.objects.create(accelerator=card, owner_id=replica.pk)
    LedgerRow.objects.create(replica=replica.pk, deployment=deployment.name)
    make_transition(replica, 1)
    return replica


def make_transition(replica: Replica, seq: int) -> None:
    ReplicaTransition.objects.create(
        replica=replica,
        seq=seq,
        at=timezone.now(),
        from_state="warming",
        to_state="ready",
        code="warmed_up",
        message=".",
    )


def make_journal(count: int) -> None:
    for number in range(count):
        what: dict[str, Any] = {"object_kind": "deployment", "object_id": "chat", "object_name": "chat"}
        record.event(actor=SYSTEM, verb="deployment.changed", message=f"Change {number}.", **what)
        record.decision(rule="restart", why=f"Reason {number}.", **what)


def make_usage(count: int) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    for number in range(count):
        UsageMinute.objects.create(
            minute=hour - timedelta(hours=number), tenant="demo", key_id="1", deployment="chat", requests=2,
            prompt_tokens=10, completion_tokens=20,
        )  # fmt: skip


def make_rules(deployment: str, tenant: str) -> None:
    """One of each rule of traffic."""
    tiers.apply(actor=SYSTEM, name="batch", wish=TierWish(1.0, 10, 1000, 5.0, 60.0, 1.0), deployment=deployment)
    quotas.apply(actor=SYSTEM, tenant=tenant, name="daily", wish=QuotaWish({"tokens_per_day": 1000}))
    shares.apply(actor=SYSTEM, tenant=tenant, deployment=deployment, wish=ShareWish(guaranteed=0.1))
    ladders.apply(actor=SYSTEM, deployment=deployment, wish=Ladder((Step("cap_tokens"),)))
    slos.apply(actor=SYSTEM, deployment=deployment, ttft_s=1.0, tpot_s=0.08)
    ladders.apply_price(actor=SYSTEM, deployment=deployment, wish=Price(0.1, 0.4))


def make_many(count: int, start: int = 0) -> None:
    """Makes `count` more rows for every list; rows of a second call begin at another `start`."""
    pool = make_pool()
    model = Model.objects.get(name="smollm2")
    replica = Deployment.objects.get(name="chat").replicas.all()[0]
    assert replica.node is not None
    for number in range(start, start + count):
        Model.objects.create(name=f"m{number}", display_name="m")
        Variant.objects.create(model=model, name=f"v{number}", path="/m")
        make_pool(f"p{number}")
        node = make_node(f"many-{number}", pool=pool)
        make_ready_replica(make_deployment(f"d{number}"), node)
        make_transition(replica, number + 10)
        ModelFiles.objects.create(node=replica.node, location=f"/m{number}", state="present")
        replica.deployment.revisions.create(number=number + 10, hash=str(number))
        Accelerator.objects.create(node=replica.node, uuid=f"extra-{number}", index=number + 10, kind="cpu", name="c")
        tenants.apply(actor=SYSTEM, name=f"t{number}")
        make_rules(f"d{number}", f"t{number}")
        keys.create(actor=SYSTEM, tenant="demo", name=f"k{number}")
        User.objects.create(username=f"u{number}")
        tokens.create(actor=SYSTEM, username="administrator-1", name=f"k{number}")
    make_journal(count)
    UsageMinute.objects.all().delete()
    make_usage(start + count)


def arguments_for(route: str, names: list[str], arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments for a route; where a name means different things, the first part of the route decides."""
    first = route.removeprefix("api/v1/").removeprefix("access/").split("/")[0]
    found: dict[str, Any] = {}
    for name in names:
        value = arguments.get(name, "x")
        found[name] = value.get(first, "x") if isinstance(value, dict) else value
    if route.startswith("api/v1/models/<name:model>/variants/<name:name>"):
        found["name"] = "bf16"
    if first == "engines" and "name" in found:
        found["name"] = "vllm"
    if first == "users" and "name" in found:
        found["name"] = "viewer-1"
    return found
