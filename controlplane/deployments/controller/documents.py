"""What is published: each node's desired document and the routing snapshot, built from the rows."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import Q
from django.utils import timezone

from controlplane.accounts.models import ApiKey
from controlplane.deployments.models import Deployment, Engine, Replica
from controlplane.deployments.services import checking
from controlplane.domain import reconcile
from controlplane.domain.desired import DESIRED_SCHEMA, AssignedAccelerator, NodeDesired, ReplicaDesired
from controlplane.domain.routing import (
    SNAPSHOT_SCHEMA,
    RoutedDeployment,
    RoutedKey,
    RoutedReplica,
    RoutingSnapshot,
)
from controlplane.fleet.models import Node
from controlplane.lib import wire
from engine_adapters import registry


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The routing snapshot without its version and time, and a hash by which two contents are told apart."""

    content: RoutingSnapshot
    hash: str

    def encode(self, version: int, published_at: float) -> bytes:
        """Returns the document as gateways read it."""
        return wire.encode(replace(self.content, version=version, published_at=published_at))


def build_snapshot(now: float) -> Snapshot:
    """Builds the routing snapshot from the rows; `now` tells which silent nodes still count."""
    replicas: dict[int, list[RoutedReplica]] = defaultdict(list)
    rows = Replica.objects.filter(ended_at=None, goal="run", state="ready").select_related(
        "node", "revision", "deployment"
    )
    for row in rows.order_by("created_at", "pk"):
        if reconcile.is_routed(row.state, row.goal, _silent_s(row.node, now)):
            replicas[row.deployment_id].append(_routed(row))
    deployments = {
        row.name: RoutedDeployment(
            id=str(row.pk),
            name=row.name,
            engine=row.engine,
            simulated=registry.get(row.engine).simulated,
            replicas=tuple(replicas[row.pk]),
        )
        for row in Deployment.objects.filter(deleted_at=None).order_by("name")
    }
    models = {name: name for name in deployments}
    content = RoutingSnapshot(SNAPSHOT_SCHEMA, 0, 0.0, deployments, models, _keys())
    return Snapshot(content, hashlib.sha256(wire.encode(content)).hexdigest())


@dataclass(frozen=True, slots=True)
class NodeWish:
    """What one node shall run, and a hash by which two contents are told apart."""

    node: Node
    replicas: tuple[ReplicaDesired, ...]
    hash: str

    def encode(self, version: int, published_at: float) -> bytes:
        """Returns the document as the node reads it."""
        return wire.encode(NodeDesired(DESIRED_SCHEMA, self.node.name, version, published_at, self.replicas))


def build_wishes() -> list[NodeWish]:
    """Builds what every node shall run: all its replicas that have not ended."""
    by_node: dict[int, list[ReplicaDesired]] = defaultdict(list)
    rows = Replica.objects.filter(ended_at=None, node__isnull=False).select_related("deployment", "revision")
    for row in rows.order_by("pk"):
        by_node[row.node_id or 0].append(_desired(row))
    return [_wish(node, by_node[node.pk]) for node in Node.objects.all()]


def _wish(node: Node, replicas: Sequence[ReplicaDesired]) -> NodeWish:
    return NodeWish(node, tuple(replicas), hashlib.sha256(wire.encode(list(replicas))).hexdigest())


def _desired(row: Replica) -> ReplicaDesired:
    accelerators = tuple(wire.from_plain(one, AssignedAccelerator) for one in row.assigned)
    build = "cuda" if any(one.kind == "gpu" for one in accelerators) else "cpu"
    return ReplicaDesired(
        replica_id=row.pk,
        deployment_id=str(row.deployment_id),
        deployment=row.deployment.name,
        revision=row.revision.number,
        revision_hash=row.revision.hash,
        goal="run" if row.goal == "run" else "stop",
        spec=checking.engine_spec(row.revision.spec, build),
        accelerators=accelerators,
        key=row.key,
        drain_timeout_s=row.drain_timeout_s,
        cause=row.cause,
    )


def _routed(row: Replica) -> RoutedReplica:
    spec = row.revision.spec
    if row.deployment.engine == Engine.EXTERNAL:
        return RoutedReplica(row.pk, spec["external_url"], row.deployment.external_key, spec["served_model_name"])
    return RoutedReplica(row.pk, row.url, row.key, spec["served_model_name"], row.node.name if row.node else "")


def _silent_s(node: Node | None, now: float) -> float | None:
    if node is None or not node.lost or node.last_report_at is None:
        return None
    return now - node.last_report_at.timestamp()


def _keys() -> dict[str, RoutedKey]:
    usable = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    rows = ApiKey.objects.filter(usable, revoked_at=None).select_related("tenant").order_by("pk")
    return {
        row.key_hash: RoutedKey(
            id=str(row.pk),
            tenant_id=str(row.tenant_id),
            tenant=row.tenant.name,
            deployments=None if row.deployments is None else tuple(row.deployments),
            expires_at=row.expires_at.timestamp() if row.expires_at else None,
        )
        for row in rows
    }
