"""Pools: named groups of nodes."""

from __future__ import annotations

import re

from django.db import transaction
from django.db.models import ProtectedError

from controlplane import dispatch
from controlplane.domain import names
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Pool
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.telemetry.services import notify

UNCHANGED = -1.0
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@transaction.atomic
def apply(
    *,
    actor: Actor,
    name: str,
    purpose: str = "mixed",
    hot: bool = True,
    strategy: str | None = None,
    batch_kv_share: float | None = UNCHANGED,
    expected_version: int | None = None,
) -> versioned.Applied[Pool]:
    """Makes a pool be as given; the same again changes nothing. `expected_version` 0 = it must not exist yet.

    `strategy` is how replicas are placed in it, spread or pack; None keeps it (spread at first).
    `batch_kv_share` is the most of a replica's KV tokens that the batch tier may hold in this pool; None = as the tier
    says, UNCHANGED keeps it.
    """
    _check(name, purpose, strategy, batch_kv_share)
    values: dict[str, object] = {"purpose": purpose, "hot": hot}
    if strategy is not None:
        values["strategy"] = strategy
    if batch_kv_share != UNCHANGED:
        values["batch_kv_share"] = batch_kv_share
    applied = versioned.apply(
        Pool.objects.all(),
        address={"name": name},
        values=values,
        object_kind="pool",
        object_id=name,
        expected_version=expected_version,
    )
    if applied.changed:
        verb = "pool.created" if applied.created else "pool.changed"
        work = "online and offline" if purpose == "mixed" else "offline"
        if purpose == "online":
            work = "online"
        nodes = "are kept running" if hot else "need not be kept running"
        _tell(actor, name, verb, f"Pool {name} is for {work} work; its nodes {nodes}.")
    return applied


@transaction.atomic
def delete(*, actor: Actor, name: str, expected_version: int | None = None) -> None:
    """Removes an empty pool; refuses while nodes or deployments belong to it."""
    pool = Pool.objects.select_for_update().filter(name=name).first()
    if pool is None:
        raise RefusedError("no_such_pool", f"There is no pool {name}.", kind="not_found")
    versioned.check(object_kind="pool", object_id=name, version=pool.version, expected_version=expected_version)
    try:
        pool.delete()
    except ProtectedError:
        message = f"Pool {name} still has nodes or deployments."
        raise RefusedError("pool_in_use", message, kind="conflict", hint="Move them to another pool first.") from None
    _tell(actor, name, "pool.deleted", f"Pool {name} was removed.")


def _check(name: str, purpose: str, strategy: str | None, batch_kv_share: float | None) -> None:
    fields: dict[str, str] = {}
    if not _NAME.fullmatch(name):
        fields["name"] = "Use lower-case letters, digits and hyphens, at most 63."
    elif names.reserved(name):
        fields["name"] = names.reserved(name)
    if purpose not in Pool.Purpose.values:
        fields["purpose"] = f"Use one of {', '.join(Pool.Purpose.values)}."
    if strategy is not None and strategy not in Pool.Strategy.values:
        fields["strategy"] = f"Use one of {', '.join(Pool.Strategy.values)}."
    if batch_kv_share not in (None, UNCHANGED) and not 0 < float(batch_kv_share or 0) <= 1:
        fields["batch_kv_share"] = "Give a part above 0, at most 1."
    if fields:
        raise RefusedError("invalid", "This pool can't be made as asked.", fields=fields)


def _tell(actor: Actor, name: str, verb: str, message: str) -> None:
    record.event(actor=actor, verb=verb, object_kind="pool", object_id=name, object_name=name, message=message)
    dispatch.wake_controller()
    notify.changed("pool", name, verb)
