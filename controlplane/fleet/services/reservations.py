"""Who holds how much of which accelerator.

Guarantees
    Rows of an accelerator are read and written under its row lock, accelerators in the order of their keys: two who
    want the same memory wait for each other and never both get it. After each change reserved + foreign + free is the
    accelerator's memory.
    What is given back on a card counts as held until a reading that is newer shows the memory free
    (`domain.memory_return`). What does not come back in time is told once, stays visible and goes on counting until a
    reading does show it free, or a person releases it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane import dispatch
from controlplane.domain import card_memory, memory_return
from controlplane.domain.card_memory import Claim
from controlplane.domain.errors import RefusedError
from controlplane.domain.memory_return import Reading, Return
from controlplane.fleet import selectors
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.telemetry.services import notify

ACTOR = Actor("system", "controller")
GIB = 2**30


def take(
    *, node: str, uuids: Iterable[str], owner_kind: str, owner_id: str, memory_bytes: int | None = None
) -> list[Accelerator] | None:
    """Reserves memory on all these accelerators of a node for one owner and returns them in the given order.

    `memory_bytes` on each of them; None = the whole accelerators. Returns None, and reserves nothing, when one of them
    has less free, is cordoned or gone. Call inside a transaction.
    """
    wanted = list(uuids)
    rows = {row.uuid: row for row in _locked(node, wanted) if row.present and not row.cordoned}
    if len(rows) != len(wanted):
        return None
    found = [rows[uuid] for uuid in wanted]
    claim = Claim(owner_id, memory_bytes)
    for row in found:
        memory = selectors.card_memory_of(row)
        if not memory.fits(memory_bytes):
            return None
        memory.with_claim(claim).check_invariants()
    try:
        with transaction.atomic():
            Reservation.objects.bulk_create(
                Reservation(accelerator=row, owner_kind=owner_kind, owner_id=owner_id, memory_bytes=memory_bytes)
                for row in found
            )
    except IntegrityError:  # the same owner has some already
        return None
    return found


@transaction.atomic
def release(*, owner_kind: str, owner_id: str, now: datetime | None = None) -> int:
    """Gives back everything that an owner holds; returns how many accelerators that was.

    Memory of cards that tell their use is only free when `settle` has seen it free.
    """
    rows = Reservation.objects.filter(owner_kind=owner_kind, owner_id=owner_id).select_related("accelerator")
    held = list(rows)
    seen = [one.pk for one in held if _tells_use(one.accelerator)]
    waiting = Reservation.objects.filter(pk__in=seen, releasing_since=None)
    waiting.update(releasing_since=now or timezone.now())
    Reservation.objects.filter(pk__in=[one.pk for one in held if one.pk not in seen]).delete()
    return len(held)


def settle(now: datetime, steady: Callable[[Collection[str]], Collection[str]]) -> int:
    """Frees what was given back and is seen to be free, and tells once of what is late; returns how many were freed.

    `steady` returns which of these owners are up, so that what they may use is in use.
    """
    waiting = Reservation.objects.filter(releasing_since__isnull=False).values_list("accelerator", flat=True)
    cards = sorted(set(waiting))
    if not cards:
        return 0
    beside = Reservation.objects.filter(accelerator__in=cards, releasing_since=None)
    up = steady(set(beside.values_list("owner_id", flat=True)))
    return sum(_settle_one(card, now, up) for card in cards)


@transaction.atomic
def _settle_one(card: int, now: datetime, steady: Collection[str]) -> int:
    row = Accelerator.objects.select_for_update(of=("self",)).select_related("node").filter(pk=card).first()
    if row is None:
        return 0
    freed = late = 0
    for held in row.reservations.filter(releasing_since__isnull=False).order_by("pk"):
        found = _judge(row, held, steady)
        if found.verdict == "back":
            held.delete()
            freed += 1
        else:
            late += _keep(row, held, found, now)
    if freed:
        notify.changed("node", row.node.name, "node.memory_free")
    if late:
        notify.changed("node", row.node.name, "node.memory_not_back")
    return freed


def _judge(row: Accelerator, held: Reservation, steady: Collection[str]) -> Return:
    assert held.releasing_since is not None
    used, written_at = row.observed.get("memory_used_bytes"), row.observed.get("written_at")
    after_s = written_at - held.releasing_since.timestamp() if isinstance(written_at, int | float) else -1.0
    newer = after_s >= memory_return.READ_EVERY_S
    reading = Reading(used if isinstance(used, int) else None, newer, card_memory.named_replica_bytes(row.observed))
    named = card_memory.named_foreign_bytes(row.observed)
    memory = card_memory.CardMemory(row.memory_total_bytes, selectors.claims_of(row), named)
    return memory_return.judge(memory, held.owner_id, reading, steady)


def _keep(row: Accelerator, held: Reservation, found: Return, now: datetime) -> bool:
    """Notes what is not back; returns whether that is new, or another number than before."""
    assert held.releasing_since is not None
    waited_s = (now - held.releasing_since).total_seconds()
    told = held.not_back_since is not None
    if not told and not found.is_late(waited_s):
        return False
    if held.not_back_bytes == found.missing_bytes:
        return False
    held.not_back_since, held.not_back_bytes = held.not_back_since or now, found.missing_bytes
    held.save(update_fields=["not_back_since", "not_back_bytes"])
    if not told:
        _tell(row, held, found, waited_s)
    return True


def _tell(row: Accelerator, held: Reservation, found: Return, waited_s: float) -> None:
    because, missing_gib = f" ({found.because})" if found.because else "", found.missing_bytes / GIB
    record.event(
        actor=ACTOR,
        verb="node.memory_not_back",
        object_kind="node",
        object_id=row.node.name,
        object_name=row.node.name,
        message=(
            f"Accelerator {row.index} ({row.name}): {held.owner_kind} {held.owner_id} ended {waited_s:.0f} s ago, and"
            f" up to {missing_gib:.1f} GiB are not back{because}. What it held stays reserved until a"
            " reading shows it free or a person releases it."
        ),
        numbers={"uuid": row.uuid, "owner": held.owner_id, "missing_bytes": found.missing_bytes},
        level="warning",
    )


@transaction.atomic
def give_up(*, actor: Actor, node: str, uuid: str, owner_id: str, expected_version: int | None = None) -> Accelerator:
    """Releases memory of an accelerator that did not come back; from then on use beyond what is reserved counts as
    somebody else's. Refused while the memory may still come by itself."""
    owner = Node.objects.select_for_update().filter(name=node).first()
    if owner is None:
        raise RefusedError("no_such_node", f"There is no node {node}.", kind="not_found")
    versioned.check(object_kind="node", object_id=node, version=owner.version, expected_version=expected_version)
    row = next(iter(_locked(node, [uuid])), None)
    held = row.reservations.filter(owner_id=owner_id).first() if row else None
    if row is None or held is None:
        message = f"{owner_id} holds nothing of accelerator {uuid} of node {node}."
        raise RefusedError("no_such_reservation", message, kind="not_found")
    if held.not_back_since is None:
        hint = "Memory of a replica that has ended is released by itself when the card shows it free."
        message = f"What {owner_id} holds of accelerator {uuid} is not told as not back."
        raise RefusedError("reservation_in_use", message, kind="conflict", hint=hint)
    missing_bytes = held.not_back_bytes or 0
    missing_gib = missing_bytes / GIB
    held.delete()
    owner.version += 1
    owner.save(update_fields=["version"])
    record.event(
        actor=actor, verb="node.memory_released", object_kind="node", object_id=node, object_name=node,
        message=(
            f"Accelerator {row.index} ({row.name}): what {held.owner_kind} {owner_id} held was released, though up to"
            f" {missing_gib:.1f} GiB of it were not seen to be back."
        ),
        numbers={"uuid": uuid, "owner": owner_id, "missing_bytes": missing_bytes}, level="warning",
    )  # fmt: skip
    dispatch.wake_controller()
    notify.changed("node", node, "node.memory_released")
    return selectors.accelerators(node=node, include_gone=True).get(pk=row.pk)


def _tells_use(row: Accelerator) -> bool:
    """Cards do. Groups of cores share the machine's memory, and simulated cards have none."""
    return row.kind == Accelerator.Kind.GPU and isinstance(row.observed.get("memory_used_bytes"), int)


def _locked(node: str, uuids: Sequence[str]) -> list[Accelerator]:
    # in one order, so that two who want the same never wait for each other
    rows = Accelerator.objects.select_for_update(of=("self",)).filter(node__name=node, uuid__in=uuids)
    return list(rows.order_by("pk").prefetch_related("reservations"))
