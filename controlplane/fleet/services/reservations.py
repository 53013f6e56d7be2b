"""Who holds how much of which accelerator.

Guarantees
    Rows of an accelerator are read and written under its row lock, accelerators in the order of their keys: two who
    want the same memory wait for each other and never both get it. After each change reserved + foreign + free is the
    accelerator's memory.
    What is given back on a card counts as held until a reading that is newer shows the memory free, or for
    `card_memory.RELEASE_WITHIN_S` at most; an event says when it did not come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane.domain import card_memory
from controlplane.domain.card_memory import Claim
from controlplane.fleet import selectors
from controlplane.fleet.models import Accelerator, Reservation
from controlplane.journal.services import record
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


def settle(now: datetime) -> int:
    """Frees what was given back and is seen to be free, or was waited for long enough; returns how many that was."""
    cards = Reservation.objects.filter(releasing_since__isnull=False).values_list("accelerator", flat=True)
    waiting = sorted(set(cards))
    return sum(_settle_one(card, now) for card in waiting)


@transaction.atomic
def _settle_one(card: int, now: datetime) -> int:
    row = Accelerator.objects.select_for_update(of=("self",)).select_related("node").filter(pk=card).first()
    if row is None:
        return 0
    freed = 0
    for held in row.reservations.filter(releasing_since__isnull=False).order_by("pk"):
        since = held.releasing_since
        assert since is not None
        used = row.observed.get("memory_used_bytes")
        if not isinstance(used, int) or (_is_newer(row, since) and _is_back(row, held, used)):
            held.delete()
        elif now - since >= timedelta(seconds=card_memory.RELEASE_WITHIN_S):
            _tell(row, held, used)
            held.delete()
        else:
            continue
        freed += 1
    if freed:
        notify.changed("node", row.node.name, "node.memory_free")
    return freed


def _is_newer(row: Accelerator, since: datetime) -> bool:
    written_at = row.observed.get("written_at")
    return isinstance(written_at, int | float) and written_at - since.timestamp() >= card_memory.READ_EVERY_S


def _is_back(row: Accelerator, held: Reservation, used: int) -> bool:
    claims = tuple(
        Claim(one.owner_id, one.memory_bytes, one.releasing_since is not None) for one in row.reservations.all()
    )
    memory = card_memory.CardMemory(row.memory_total_bytes, claims, card_memory.named_foreign_bytes(row.observed))
    return memory.is_back(used, held.owner_id)


def _tell(row: Accelerator, held: Reservation, used: int) -> None:
    record.event(
        actor=ACTOR,
        verb="node.memory_not_back",
        object_kind="node",
        object_id=row.node.name,
        object_name=row.node.name,
        message=(
            f"Accelerator {row.index} ({row.name}): {held.owner_kind} {held.owner_id} ended"
            f" {card_memory.RELEASE_WITHIN_S:.0f} s ago, and {used / GIB:.1f} GiB are still in use. What is in use"
            " counts as somebody else's from now on."
        ),
        numbers={"uuid": row.uuid, "used_bytes": used},
        level="warning",
    )


def _tells_use(row: Accelerator) -> bool:
    """Cards do. Groups of cores share the machine's memory, and simulated cards have none."""
    return row.kind == Accelerator.Kind.GPU and isinstance(row.observed.get("memory_used_bytes"), int)


def _locked(node: str, uuids: Sequence[str]) -> list[Accelerator]:
    # in one order, so that two who want the same never wait for each other
    rows = Accelerator.objects.select_for_update(of=("self",)).filter(node__name=node, uuid__in=uuids)
    return list(rows.order_by("pk").prefetch_related("reservations"))
