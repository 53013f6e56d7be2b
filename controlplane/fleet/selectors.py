"""Reading nodes, accelerators and pools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from controlplane.domain import card_health, card_memory
from controlplane.domain.card_memory import CardMemory, Claim
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Accelerator, ModelFiles, Node, Pool, Reservation
from controlplane.journal import selectors as journal

_PRESENT = Q(accelerators__present=True)
_HELD = Q(accelerators__reservations__isnull=False)
GIB = 2**30
CARRIED_OUT_WITHIN = timedelta(seconds=10)
CLOCK_TOLERATED_S = 5.0
REFUSED_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds memory of a card. `reserved_bytes` None = the whole card. `releasing`: it has ended, and the memory is
    not seen to be back yet; `not_back_since` when that was told as late, with the `not_back_bytes` missing at most."""

    owner_kind: str
    owner_id: str
    reserved_bytes: int | None
    releasing: bool
    not_back_since: datetime | None = None
    not_back_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CardShares:
    """One accelerator: who holds what. reserved + foreign + free = total; None where its memory is not known.

    `used_bytes` is what the driver measures, whoever uses it; None = it does not say.
    """

    accelerator: Accelerator
    holders: tuple[Holder, ...]
    total_bytes: int | None
    reserved_bytes: int | None
    foreign_bytes: int | None
    free_bytes: int | None
    used_bytes: int | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about a node that a person has to look at: a searchable code, one sentence, what to do."""

    node: str
    # node_lost | document_not_carried_out | report_refused | clock_wrong | accelerator_gone | accelerator_unfit |
    # memory_not_back
    code: str
    message: str
    hint: str


def nodes(
    *,
    pool: str | None = None,
    lost: bool | None = None,
    cordoned: bool | None = None,
    simulated: bool | None = None,
    search: str | None = None,
) -> QuerySet[Node]:
    """Returns nodes with `accelerators_total` and `accelerators_taken` (of those in the newest report)."""
    rows = Node.objects.select_related("pool").annotate(
        accelerators_total=Count("accelerators", filter=_PRESENT, distinct=True),
        accelerators_taken=Count("accelerators", filter=_PRESENT & _HELD, distinct=True),
    )
    rows = rows.order_by("name")  # a count takes away the model's own order
    if pool:
        rows = rows.filter(pool__name=pool)
    if lost is not None:
        rows = rows.filter(lost=lost)
    if cordoned is not None:
        rows = rows.filter(cordoned=cordoned)
    if simulated is not None:
        rows = rows.filter(simulated=simulated)
    if search:
        rows = rows.filter(Q(name__icontains=search) | Q(address__icontains=search))
    return rows


def node_states(rows: QuerySet[Node]) -> dict[str, int]:
    """Returns `all`, `ready`, `cordoned` (lost or not) and `lost` -> how many of these nodes, in one query."""
    return rows.order_by().aggregate(
        all=Count("pk", distinct=True),
        ready=Count("pk", filter=Q(lost=False, cordoned=False), distinct=True),
        cordoned=Count("pk", filter=Q(cordoned=True), distinct=True),
        lost=Count("pk", filter=Q(lost=True), distinct=True),
    )


def node(name: str) -> Node:
    """Returns one node with the numbers of `nodes()`; raises RefusedError when there is none of this name."""
    found = nodes().filter(name=name).first()
    if found is None:
        raise RefusedError("no_such_node", f"There is no node {name}.", kind="not_found")
    return found


def accelerators(
    *, node: str | None = None, kind: str | None = None, free: bool | None = None, include_gone: bool = False
) -> QuerySet[Accelerator]:
    """Returns accelerators with their node and reservations. `free` True = nobody holds any of it."""
    rows = Accelerator.objects.select_related("node").prefetch_related("reservations")
    if not include_gone:
        rows = rows.filter(present=True)
    if node:
        rows = rows.filter(node__name=node)
    if kind:
        rows = rows.filter(kind=kind)
    if free is not None:
        held = Exists(Reservation.objects.filter(accelerator=OuterRef("pk")))
        rows = rows.filter(~held if free else held)
    return rows


def model_files(*, node: str, state: str | None = None) -> QuerySet[ModelFiles]:
    """Returns what a node saw of models' files, by location, each with `looked_at`."""
    rows = (
        ModelFiles.objects.filter(node__name=node).annotate(looked_at=F("node__files_looked_at")).order_by("location")
    )
    return rows.filter(state=state) if state else rows


def card_shares(node: Node) -> list[CardShares]:
    """Returns who holds how many bytes of each accelerator in the node's newest report, by index; two queries."""
    return [shares_of(row) for row in accelerators(node=node.name).order_by("index", "pk")]


def shares_of(row: Accelerator) -> CardShares:
    """Returns who holds how many bytes of an accelerator (of `accelerators()`, which brings the reservations)."""
    memory, used = card_memory_of(row), row.observed.get("memory_used_bytes")
    return CardShares(
        accelerator=row,
        holders=tuple(_holder(one) for one in row.reservations.all()),
        total_bytes=memory.total_bytes,
        reserved_bytes=memory.reserved_bytes,
        foreign_bytes=memory.foreign_bytes,
        free_bytes=memory.free_bytes,
        used_bytes=used if isinstance(used, int) else None,
    )


def _holder(held: Reservation) -> Holder:
    releasing = held.releasing_since is not None
    return Holder(
        held.owner_kind, held.owner_id, held.memory_bytes, releasing, held.not_back_since, held.not_back_bytes
    )


def card_memory_of(row: Accelerator) -> CardMemory:
    """Returns the memory of an accelerator as placement sees it. Groups of cores are held whole: their memory is the
    machine's, and readings say nothing of who uses it."""
    observed = row.observed if row.kind == Accelerator.Kind.GPU else {}
    return card_memory.of_card(row.memory_total_bytes, claims_of(row), observed)


def claims_of(row: Accelerator) -> tuple[Claim, ...]:
    """Returns who holds how much of an accelerator."""
    return tuple(
        Claim(one.owner_id, one.memory_bytes, one.releasing_since is not None, one.not_back_bytes)
        for one in row.reservations.all()
    )


def pools() -> QuerySet[Pool]:
    """Returns pools with `nodes_total` and `nodes_lost`."""
    return Pool.objects.annotate(
        nodes_total=Count("nodes", distinct=True),
        nodes_lost=Count("nodes", filter=Q(nodes__lost=True), distinct=True),
    ).order_by("name")


def pool(name: str) -> Pool:
    """Returns one pool; raises RefusedError when there is none of this name."""
    found = pools().filter(name=name).first()
    if found is None:
        raise RefusedError("no_such_pool", f"There is no pool {name}.", kind="not_found")
    return found


def problems(now: datetime | None = None) -> list[Problem]:
    """Returns what is wrong with nodes now, the worst first; three queries however many nodes there are."""
    at = now or timezone.now()
    found = [*_of_nodes(at), *_refused(at), *_accelerators()]
    order = (
        "node_lost", "document_not_carried_out", "report_refused", "accelerator_gone", "accelerator_unfit",
        "memory_not_back", "clock_wrong",
    )  # fmt: skip
    return sorted(found, key=lambda one: (order.index(one.code), one.node))


def _of_nodes(at: datetime) -> Iterator[Problem]:
    behind = Q(carried_out_version__lt=F("desired_version"), desired_at__lt=at - CARRIED_OUT_WITHIN)
    unclear = Q(clock_ahead_s__gt=CLOCK_TOLERATED_S) | Q(clock_ahead_s__lt=-CLOCK_TOLERATED_S)
    for node in Node.objects.filter(Q(lost=True) | behind | unclear):
        name = node.name
        if node.lost:
            silent = f" for {_seconds(at, node.last_report_at)} s" if node.last_report_at else ""
            hint = "Look whether the machine and its node worker run and reach Valkey. What runs there is left running."
            yield Problem(name, "node_lost", f"Node {name} has not reported{silent}.", hint)
            continue
        if node.carried_out_version < node.desired_version and node.desired_at:
            late_s = _seconds(at, node.desired_at)
            if late_s > CARRIED_OUT_WITHIN.total_seconds():
                text = (
                    f"Node {name} has not taken over its desired state for {late_s} s: it is at version"
                    f" {node.carried_out_version}, the newest is {node.desired_version}."
                )
                hint = "Its worker's log says why it passes a document over."
                yield Problem(name, "document_not_carried_out", text, hint)
        if abs(node.clock_ahead_s or 0.0) > CLOCK_TOLERATED_S:
            ahead_s = node.clock_ahead_s or 0.0
            text = f"The clock of node {name} is {abs(ahead_s):.0f} s {'ahead' if ahead_s > 0 else 'behind'}."
            yield Problem(name, "clock_wrong", text, "Set it by NTP; charts of what runs there are wrong until then.")


def _refused(at: datetime) -> Iterator[Problem]:
    for row in journal.decisions(rule="report_refused", since=at - REFUSED_WITHIN):
        yield Problem(row.object_id, "report_refused", row.why, "The journal tells since when.")


def _accelerators() -> Iterator[Problem]:
    """Those that are gone while somebody holds them, that are unfit, or whose memory is not back; one query for all."""
    gone = Q(present=False, reservations__isnull=False)
    sick = Q(observed__uncorrected_errors__gt=0) | Q(observed__remap_failed=True) | Q(observed__remap_pending=True)
    late = Q(reservations__not_back_since__isnull=False)
    rows = Accelerator.objects.filter(gone | late | (Q(present=True) & sick)).select_related("node")
    told: set[int] = set()
    for row in rows.annotate(
        owner_kind=F("reservations__owner_kind"),
        owner_id=F("reservations__owner_id"),
        not_back_bytes=F("reservations__not_back_bytes"),
    ):
        if row.not_back_bytes is not None:
            yield _not_back(row, row.owner_id or "", row.not_back_bytes / GIB)
        elif not row.present:
            yield _gone(row, row.owner_kind or "", row.owner_id or "")
        if row.present and row.pk not in told and (why := card_health.why_unfit(row.observed)):
            told.add(row.pk)
            text = f"Nothing new is placed on accelerator {row.index} ({row.name}) of node {row.node.name}: it {why}."
            hint = "Empty it and reset it, or replace it. What runs on it goes on."
            yield Problem(row.node.name, "accelerator_unfit", text, hint)


def _not_back(row: Accelerator, owner_id: str, missing_gib: float) -> Problem:
    text = (
        f"Up to {missing_gib:.1f} GiB of accelerator {row.index} ({row.name}) of node {row.node.name} are not"
        f" back from replica {owner_id}, which has ended. What it held stays reserved."
    )
    hint = "Look for a process that is left on the card; the node's page releases what will not come back."
    return Problem(row.node.name, "memory_not_back", text, hint)


def _gone(row: Accelerator, owner_kind: str, owner_id: str) -> Problem:
    text = (
        f"Node {row.node.name} does not see accelerator {row.index} ({row.name}) any more, which"
        f" {owner_kind} {owner_id} holds."
    )
    hint = "Look at the card and its driver. The replica goes on as long as its engine does."
    return Problem(row.node.name, "accelerator_gone", text, hint)


def _seconds(at: datetime, since: datetime) -> int:
    return max(0, int((at - since).total_seconds()))
