"""The rows as the pure decisions want them. Read only; a handful of queries however large the fleet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from django.db.models import QuerySet

from controlplane.deployments.controller.times import to_datetime
from controlplane.deployments.models import Deployment, DesiredState, Engine, Replica
from controlplane.deployments.services import freeze, ledgers
from controlplane.deployments.services.deployments import STOP_DRAIN_S
from controlplane.domain import card_health, model_files
from controlplane.domain.model_files import FilesOnNode, State
from controlplane.domain.placement import Site, Slot, make_of
from controlplane.domain.reconcile import Member, Wanted
from controlplane.domain.topology import Topology, TopologyError
from controlplane.fleet import selectors as fleet
from controlplane.fleet.models import Accelerator, ModelFiles, Node, Pool, Reservation
from controlplane.lib import wire

DRAIN_S = STOP_DRAIN_S
LONG_DRAIN_S = 3600.0  # the same when a person asked to drain


@dataclass(slots=True)
class Fleet:
    """Everything that one round of decisions needs; `sites` changes as the round hands out accelerators."""

    deployments: list[Deployment]
    members: dict[int, list[Member]]  # deployment id -> its living replicas
    sites: dict[str, Site] = field(default_factory=dict)
    frozen: bool = False  # nothing may be changed automatically


def load(now: float) -> Fleet:
    """Reads the fleet. `now` in seconds since the epoch tells for how long silent nodes have been silent."""
    members: dict[int, list[Member]] = defaultdict(list)
    names = dict(Node.objects.values_list("pk", "name"))
    lost = Reservation.objects.filter(accelerator__present=False, owner_kind="replica")
    gone = dict(lost.values_list("owner_id", "accelerator__uuid"))
    columns = ("deployment", "revision", "state", "goal", "created_at", "node", "reason_message")
    for row in Replica.objects.filter(ended_at=None).only(*columns):
        members[row.deployment_id].append(_member(row, names, gone))
    deployments = Deployment.objects.select_related("pool", "revision", "variant__model").order_by("created_at", "pk")
    return Fleet(list(deployments), members, load_sites(now), freeze.is_frozen())


def load_sites(now: float) -> dict[str, Site]:
    """Reads the nodes with their accelerators and who holds how much of them."""
    slots: dict[int, list[Slot]] = defaultdict(list)
    for row in Accelerator.objects.filter(present=True).prefetch_related("reservations"):
        slots[row.node_id].append(_slot(row))
    nodes: QuerySet[Node] = Node.objects.select_related("pool")
    return {node.name: _site(node, tuple(slots[node.pk]), now) for node in nodes}


def wanted(deployment: Deployment, all_frozen: bool = False) -> Wanted:
    """Returns what a deployment is wished to be, while nothing at all may be changed automatically or otherwise."""
    running = deployment.desired_state == DesiredState.RUNNING and deployment.deleted_at is None
    revision = deployment.revision
    drained = deployment.desired_state == DesiredState.DRAINED
    return Wanted(
        name=deployment.name,
        engine=deployment.engine,
        managed=deployment.engine != Engine.EXTERNAL,
        pool=deployment.pool.name,
        replicas=deployment.replicas_wanted if running and revision is not None else 0,
        revision=revision.pk if revision is not None else 0,
        accelerators=revision.accelerators_per_replica if revision is not None else 1,
        drain_timeout_s=LONG_DRAIN_S if drained else DRAIN_S,
        frozen=deployment.frozen or all_frozen,
        all_frozen=all_frozen,
        leaving=deployment.deleted_at is not None,
        tensor_parallel=revision.spec.get("tensor_parallel", 1) if revision is not None else 1,
        labels=deployment.node_labels,
        strategy="pack" if deployment.pool.strategy == Pool.Strategy.PACK else "spread",
    )


def with_ledgers(wish: Wanted, deployment: Deployment, sites: Mapping[str, Site], now: float) -> Wanted:
    """Returns the wish with what a replica takes of each make of accelerator in its pool, and where the model's files
    are known to be. Only needed where something is to be placed. `now` is in seconds since the epoch."""
    revision = deployment.revision
    if revision is None or not wish.managed:
        return wish
    mine = [site for site in sites.values() if site.pool == wish.pool]
    makes = {make_of(slot, site.engines.get(wish.engine)) for site in mine for slot in site.slots}
    asked = {make: ledgers.asked(deployment.variant, revision.spec, make) for make in makes}
    files = {} if wish.engine == Engine.SIMULATED else files_on_nodes(revision.spec.get("model_path", ""), now)
    return replace(wish, asked=asked, files=files)


def files_on_nodes(location: str, now: float) -> dict[str, FilesOnNode]:
    """Returns node -> what there is of a model. Nodes that have not looked lately, or could not read it, have its files
    when an engine has served from there, and say nothing otherwise."""
    served = Replica.objects.filter(revision__spec__model_path=location, node__isnull=False, facts__start_s__gt=0)
    found = {name: FilesOnNode("present") for name in served.values_list("node__name", flat=True).distinct()}
    fresh = to_datetime(now - model_files.COUNTS_FOR_S)
    seen = ModelFiles.objects.filter(location=location, node__files_looked_at__gt=fresh).exclude(state="unknown")
    for name, state, missing, reason in seen.values_list("node__name", "state", "missing", "reason"):
        found[name] = model_files.on_node(location, cast(State, state), missing, reason)
    return found


def _member(row: Replica, nodes: Mapping[int, str], gone: Mapping[str, str]) -> Member:
    return Member(
        id=row.pk,
        revision=row.revision_id,
        state=row.state,  # type: ignore[arg-type]  # the column holds nothing but states
        goal=row.goal,  # type: ignore[arg-type]
        created_at=row.created_at.timestamp(),
        node=nodes[row.node_id] if row.node_id is not None else None,
        waiting_why=row.reason_message if row.state == "pending" else "",
        gone=gone.get(row.pk, ""),
    )


def _site(node: Node, slots: tuple[Slot, ...], now: float) -> Site:
    silent_s = now - node.last_report_at.timestamp() if node.last_report_at else 0.0
    return Site(
        name=node.name,
        pool=node.pool.name,
        lost_for_s=max(0.0, silent_s) if node.lost else None,
        cordoned=node.cordoned,
        cordon_reason=node.cordon_reason,
        draining=node.draining,
        engines=node.engines,
        slots=slots,
        labels=node.labels,
        topology=_topology(node),
        card_price_per_hour=node.card_price_per_hour,
    )


def _topology(node: Node) -> Topology | None:
    if not node.topology:
        return None
    try:
        found = wire.from_plain(node.topology, Topology)
        found.check_invariants()
    except (wire.WireError, TopologyError):
        return None
    return found


def _slot(row: Accelerator) -> Slot:
    unusable = "cordoned" if row.cordoned else card_health.why_unfit(row.observed)
    if row.observed.get("mig_enabled"):
        unusable = "split into MIG slices"
    return Slot(
        uuid=row.uuid,
        kind=row.kind,
        name=row.name,
        index=row.index,
        memory=fleet.card_memory_of(row),
        unusable=unusable,
        foreign=bool(row.observed.get("foreign_processes")),
    )
