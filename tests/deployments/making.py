"""Rows that tests of deployments start from."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from controlplane.catalog.models import Model, Variant
from controlplane.deployments.models import Deployment, Replica
from controlplane.deployments.services import deployments
from controlplane.deployments.wish import DeploymentWish
from controlplane.fleet.models import Accelerator, Node, Pool
from controlplane.journal.services.record import Actor
from controlplane.lib.ids import new_id, new_secret

ADA = Actor("user", "ada")


def make_pool(name: str = "default") -> Pool:
    return Pool.objects.get_or_create(name=name)[0]


def make_variant(model: str = "smollm2", name: str = "bf16") -> Variant:
    row = Model.objects.get_or_create(name=model, defaults={"display_name": model})[0]
    return Variant.objects.get_or_create(model=row, name=name, defaults={"path": f"/models/{model}"})[0]


def make_wish(**changes: Any) -> DeploymentWish:
    make_pool()
    make_variant()
    return DeploymentWish(**{"engine": "vllm", "variant": "smollm2/bf16", **changes})


def make_external_wish(**changes: Any) -> DeploymentWish:
    make_pool()
    given = {"engine": "external", "external_url": "http://127.0.0.1:9/v1", "external_model": "llama", **changes}
    return DeploymentWish(**given)


def make_deployment(name: str = "chat", **changes: Any) -> Deployment:
    return deployments.apply(actor=ADA, name=name, wish=make_wish(**changes)).deployment


def make_node(name: str = "n1", *, cards: int = 2, kind: str = "cpu", **fields: Any) -> Node:
    given: dict[str, Any] = {
        "pool": make_pool(),
        "last_report_at": timezone.now(),
        "engines": {"vllm": "0.32.0", "simulated": "1"},
        "simulated": kind == "simulated",
        **fields,
    }
    node = Node.objects.create(name=name, **given)
    for index in range(cards):
        Accelerator.objects.create(
            node=node, uuid=f"{name}-{index}", index=index, kind=kind, name="card", address=str(index)
        )
    return node


def make_replica(deployment: Deployment, **fields: Any) -> Replica:
    given: dict[str, Any] = {
        "id": new_id(),
        "deployment": deployment,
        "revision": deployment.revision,
        "state_since": timezone.now(),
        "key": new_secret("hwr"),
        **fields,
    }
    return Replica.objects.create(**given)
