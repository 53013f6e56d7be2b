"""Who holds which accelerator. One row an accelerator, unique, so that two can never hold the same."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import IntegrityError, transaction

from controlplane.fleet.models import Accelerator, Reservation


def take(*, node: str, uuids: Iterable[str], owner_kind: str, owner_id: str) -> list[Accelerator] | None:
    """Reserves all these accelerators of a node for one owner and returns them in the given order.

    Returns None, and reserves nothing, when one of them is held, cordoned or gone. Call inside a transaction.
    """
    wanted = list(uuids)
    rows = {row.uuid: row for row in _usable(node, wanted)}
    if len(rows) != len(wanted):
        return None
    found = [rows[uuid] for uuid in wanted]
    try:
        with transaction.atomic():
            Reservation.objects.bulk_create(
                Reservation(accelerator=row, owner_kind=owner_kind, owner_id=owner_id) for row in found
            )
    except IntegrityError:  # somebody else was a moment quicker
        return None
    return found


def release(*, owner_kind: str, owner_id: str) -> int:
    """Gives back everything that an owner holds; returns how many accelerators that was."""
    return Reservation.objects.filter(owner_kind=owner_kind, owner_id=owner_id).delete()[0]


def _usable(node: str, uuids: list[str]) -> list[Accelerator]:
    # in one order, so that two who want the same never wait for each other
    rows = Accelerator.objects.select_for_update(of=("self",)).filter(node__name=node, uuid__in=uuids).order_by("pk")
    return [row for row in rows if row.present and not row.cordoned]
