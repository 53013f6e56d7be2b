"""What is published: each node's desired document and the routing snapshot, built from the rows."""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from controlplane.accounts.models import ApiKey
from controlplane.catalog.models import Variant
from controlplane.deployments.controller import rules
from controlplane.deployments.models import Deployment, DesiredState, Engine, LedgerRow, Replica, Revision
from controlplane.deployments.services import checking, freeze, start_times
from controlplane.domain import reconcile
from controlplane.domain.desired import DESIRED_SCHEMA, AssignedAccelerator, NodeDesired, ReplicaDesired
from controlplane.domain.errors import RefusedError
from controlplane.domain.model_files import MOST_LOCATIONS
from controlplane.domain.routing import (
    SNAPSHOT_SCHEMA,
    RoutedDeployment,
    RoutedKey,
    RoutedReplica,
    RoutingSnapshot,
)
from controlplane.domain.sequence_kv import SequenceKv
from controlplane.fleet.models import Node
from controlplane.lib import wire
from engine_adapters import registry
from engine_adapters.external import settings as external

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The routing snapshot without its version and time, and a hash by which two contents are told apart."""

    content: RoutingSnapshot
    hash: str

    def encode(self, version: int, published_at: float) -> bytes:
        """Returns the document as gateways read it."""
        return wire.encode(replace(self.content, version=version, published_at=published_at))


def build_snapshot(now: float) -> Snapshot:
    """Builds the routing snapshot from the rows; `now` tells which silent nodes still count.

    A deployment whose rows this version can't read (those of a newer one) is left out, and the log says so.
    """
    nodes = Node.objects.in_bulk()
    revisions = dict(_needed_revisions().values_list("pk", "spec"))
    ready: dict[int, list[Replica]] = defaultdict(list)
    rows = Replica.objects.filter(ended_at=None, goal="run", state="ready").order_by("created_at", "pk")
    rows = rows.only("deployment", "revision", "node", "state", "goal", "url", "key", "facts")
    rows = rows.annotate(predicted=_of_ledger("predicted"), measured=_of_ledger("measured"))
    for row in rows.annotate(ceiling=_of_ledger("concurrency_ceiling")):
        if reconcile.is_routed(row.state, row.goal, _silent_s(nodes.get(row.node_id or 0), now)):
            ready[row.deployment_id].append(row)
    deployments: dict[str, RoutedDeployment] = {}
    rows_of_deployments = list(Deployment.objects.filter(deleted_at=None).order_by("name"))
    expected = start_times.expected_at(
        [one for one in rows_of_deployments if one.pk not in ready and one.desired_state == DesiredState.RUNNING]
    )
    for deployment in rows_of_deployments:
        with _unreadable_is_left_out(f"deployment {deployment.name} is not routed"):
            replicas = [
                _routed(row, deployment, revisions[row.revision_id], nodes.get(row.node_id or 0))
                for row in ready[deployment.pk]
            ]
            routed = _deployment(deployment, replicas)
            deployments[deployment.name] = replace(routed, ready_expected_at=expected.get(deployment.pk))
    if freeze.is_frozen():
        deployments = {name: replace(one, frozen=True) for name, one in deployments.items()}
    models = {name: name for name in deployments}
    content = rules.add_all(RoutingSnapshot(SNAPSHOT_SCHEMA, 0, 0.0, deployments, models, _keys()))
    return Snapshot(content, hashlib.sha256(wire.encode(content)).hexdigest())


@dataclass(frozen=True, slots=True)
class NodeWish:
    """What one node shall run, and a hash by which two contents are told apart."""

    node: Node
    replicas: tuple[ReplicaDesired, ...]
    hash: str

    def encode(self, version: int, published_at: float, models: tuple[str, ...] = ()) -> bytes:
        """Returns the document as the node reads it. `models` are the locations of model files to look for."""
        name, machine = self.node.name, self.node.machine
        asked = () if self.node.simulated else models
        return wire.encode(
            NodeDesired(DESIRED_SCHEMA, name, version, published_at, self.replicas, machine=machine, models=asked)
        )


def models_asked() -> tuple[str, ...]:
    """Returns the locations of model files that nodes are asked about: those of deployments first, then those of the
    catalog, as many as `MOST_LOCATIONS`."""
    living = Deployment.objects.filter(deleted_at=None, engine=Engine.VLLM, revision__isnull=False)
    deployed = {str(spec.get("model_path") or "") for spec in living.values_list("revision__spec", flat=True)}
    catalog = Variant.objects.order_by("path").values_list("path", flat=True).distinct()
    found = dict.fromkeys([*sorted(deployed), *catalog[:MOST_LOCATIONS]])
    return tuple(one for one in found if one)[:MOST_LOCATIONS]


def build_wishes() -> list[NodeWish]:
    """Builds what every node shall run: all its replicas that have not ended.

    A node with a replica whose rows this version can't read gets no new document, and the log says so: to leave the
    replica out would end it.
    """
    names = dict(Deployment.objects.values_list("pk", "name"))
    revisions = _needed_revisions().in_bulk()
    by_node: dict[int, list[Replica]] = defaultdict(list)
    rows = Replica.objects.filter(ended_at=None, node__isnull=False).order_by("pk")
    columns = ("deployment", "revision", "node", "goal", "assigned", "key", "drain_timeout_s", "cause")
    for row in rows.only(*columns):
        by_node[row.node_id or 0].append(row)
    wishes: list[NodeWish] = []
    for node in Node.objects.all():
        with _unreadable_is_left_out(f"node {node.name} gets no new document"):
            replicas = [_desired(row, names[row.deployment_id], revisions[row.revision_id]) for row in by_node[node.pk]]
            wishes.append(_wish(node, replicas))
    return wishes


def _of_ledger(column: str) -> Subquery:
    return Subquery(LedgerRow.objects.filter(replica=OuterRef("pk")).values(column)[:1])


def _needed_revisions() -> QuerySet[Revision]:
    return Revision.objects.filter(pk__in=Replica.objects.filter(ended_at=None).values("revision"))


@contextmanager
def _unreadable_is_left_out(what: str) -> Iterator[None]:
    """After a step back to an older version the rows may hold engines and settings that it does not know; that must
    not stop everybody else."""
    try:
        yield
    except (KeyError, wire.WireError, RefusedError) as error:
        logger.error("%s: %s: %s", what, type(error).__name__, error)


def _wish(node: Node, replicas: Sequence[ReplicaDesired]) -> NodeWish:
    return NodeWish(node, tuple(replicas), hashlib.sha256(wire.encode([node.machine, *replicas])).hexdigest())


def _desired(row: Replica, deployment: str, revision: Revision) -> ReplicaDesired:
    accelerators = tuple(wire.from_plain(one, AssignedAccelerator) for one in row.assigned)
    build = "cuda" if any(one.kind == "gpu" for one in accelerators) else "cpu"
    return ReplicaDesired(
        replica_id=row.pk,
        deployment_id=str(row.deployment_id),
        deployment=deployment,
        revision=revision.number,
        revision_hash=revision.hash,
        goal="run" if row.goal == "run" else "stop",
        spec=checking.engine_spec(revision.spec, build),
        accelerators=accelerators,
        key=row.key,
        drain_timeout_s=row.drain_timeout_s,
        cause=row.cause,
    )


def _deployment(row: Deployment, replicas: Sequence[RoutedReplica]) -> RoutedDeployment:
    simulated = registry.get(row.engine).simulated
    stopped = row.desired_state != DesiredState.RUNNING
    return RoutedDeployment(str(row.pk), row.name, row.engine, simulated, tuple(replicas), stopped, frozen=row.frozen)


def _routed(row: Replica, deployment: Deployment, spec: Mapping[str, Any], node: Node | None) -> RoutedReplica:
    model = spec["served_model_name"]
    settings = spec.get("settings", {})
    takes_priority = settings.get("scheduling_policy") == "priority"
    if deployment.engine == Engine.EXTERNAL:
        url, is_vllm = external.api_url(spec["external_url"]), bool(settings.get("is_vllm"))
        return RoutedReplica(
            row.pk, url, deployment.external_key, model, takes_priority=is_vllm and takes_priority, takes_salt=is_vllm
        )
    copies = _positive(settings.get("data_parallel_size")) or 1  # each with a cache and seats of its own
    tokens, seats = _room(row, settings)
    return RoutedReplica(
        row.pk,
        row.url,
        row.key,
        model,
        node.name if node else "",
        kv_capacity_tokens=_times(copies, tokens),
        max_num_seqs=_times(copies, seats),
        engine_version=str(row.facts.get("engine_version") or ""),
        takes_priority=takes_priority,
        sequence_kv=_sequence_kv(row),
        max_model_len=_positive(settings.get("max_model_len")) or _positive(_predicted(row).get("max_model_len")),
    )


def _room(row: Replica, settings: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Tokens of one copy's cache and its seats: as the engine told and the settings say, else as the ledger predicted.

    Where layers keep different things the tokens that an engine tells are no capacity: its blocks are, as the ledger
    has counted them.
    """
    predicted = _predicted(row)
    tokens = _positive(row.facts.get("kv_cache_tokens")) or _positive(predicted.get("capacity_tokens"))
    if _sequence_kv(row) is not None:
        seen: Mapping[str, Any] = getattr(row, "measured", None) or {}
        tokens = _positive(seen.get("capacity_tokens")) or _positive(predicted.get("capacity_tokens"))
    seats = _positive(settings.get("max_num_seqs")) or _positive(predicted.get("max_num_seqs"))
    ceiling = _positive(getattr(row, "ceiling", None))
    if tokens is None and ceiling is not None:
        each = max(1, ceiling // (_positive(settings.get("data_parallel_size")) or 1))  # the row's is of all copies
        seats = each if seats is None else min(seats, each)
    return tokens, seats


def _sequence_kv(row: Replica) -> SequenceKv | None:
    kept = _predicted(row).get("sequence_kv")
    return wire.from_plain(kept, SequenceKv) if isinstance(kept, Mapping) else None


def _predicted(row: Replica) -> Mapping[str, Any]:
    predicted: Mapping[str, Any] = getattr(row, "predicted", None) or {}
    return predicted


def _times(copies: int, value: int | None) -> int | None:
    return None if value is None else copies * value


def _positive(value: object) -> int | None:
    """What is no count of anything is as good as not known: it must not stop a gateway."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


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
