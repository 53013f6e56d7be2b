"""How changes of the rules of traffic are told."""

from __future__ import annotations

from typing import Any

from django.db.models import Model

from controlplane import dispatch
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied


def told(actor: Actor, kind: str, address: str, applied: Applied[Any], *, of: str = "") -> None:
    """Writes into the journal what `apply` did, and has the controller publish it; `of`: the deployment it concerns."""
    if not applied.changed:
        return
    done = "made" if applied.created else f"changed: {', '.join(applied.fields)}"
    verb = f"{kind}.created" if applied.created else f"{kind}.changed"
    _event(actor, kind, address, verb, f"The {kind} {address} was {done}.", of=of)


def remove(
    actor: Actor, kind: str, address: str, row: Model | None, expected_version: int | None, *, of: str = ""
) -> None:
    """Removes a locked row and tells it; refuses where there is none, or where it is not of that version."""
    if row is None:
        raise RefusedError(f"no_such_{kind}", f"There is no {kind} {address}.", kind="not_found")
    version: int = row.version  # type: ignore[attr-defined]
    versioned.check(object_kind=kind, object_id=address, version=version, expected_version=expected_version)
    row.delete()
    _event(actor, kind, address, f"{kind}.deleted", f"The {kind} {address} was removed.", level="warning", of=of)


def _event(actor: Actor, kind: str, address: str, verb: str, message: str, *, level: str = "info", of: str) -> None:
    record.event(
        actor=actor, verb=verb, object_kind=kind, object_id=address, object_name=address, deployment=of,
        message=message, level=level,
    )  # fmt: skip
    dispatch.wake_controller()
