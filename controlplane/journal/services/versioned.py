"""Rows that are addressed by name and changed declaratively: make it so, once, and tell who was there before.

Guarantees
    `apply` with the same values twice changes nothing the second time: no write, no new version, `changed` False.
    A caller that names the version it has seen never overwrites a newer one.
Concurrency
    The row is locked for the transaction. Of two that make the same name at once, the second changes what the first
    made, or is refused when it asked for a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import IntegrityError, models, transaction

from controlplane.domain.errors import RefusedError
from controlplane.journal.models import Event

# told under the object's name, and no change of it
_NO_CHANGES = ("deployment.cloned", "user.logged_in", "user.logged_out", "user.login_failed")
Row = TypeVar("Row", bound=models.Model)


@dataclass(frozen=True, slots=True)
class Applied(Generic[Row]):
    """What `apply` did: the row as it is now, and whether it was changed or made."""

    row: Row
    changed: bool
    created: bool
    fields: tuple[str, ...] = ()  # that differ from before


def changed_meanwhile(*, object_kind: str, object_id: str, version: int, expected_version: int) -> RefusedError:
    """Returns the refusal for a caller that has seen another version; it says who changed the object last, and when.

    A version below 0 is none that an object ever has: the caller sent something else.
    """
    if version and expected_version < 0:
        return _no_such_version(object_kind, object_id, version)
    told = Event.objects.filter(object_kind=object_kind, object_id=object_id).exclude(verb__in=_NO_CHANGES)
    # what the system tells of an object (a node is lost, a replica failed) makes no version, what people do makes one
    newest = told.exclude(actor_kind=Event.ActorKind.SYSTEM).first() or told.first()
    fields = {"version": str(version)}
    if expected_version >= 0:
        fields["expected_version"] = str(expected_version)
    who = ""
    if newest is not None:
        fields |= {"changed_by": newest.actor, "changed_at": newest.at.isoformat()}
        who = f" by {newest.actor} at {newest.at:%Y-%m-%d %H:%M:%S} UTC"
    what = f"was changed meanwhile{who}" if version else "does not exist"
    return RefusedError(
        "changed_meanwhile",
        f"The {object_kind} {object_id} {what}.",
        kind="conflict",
        hint="Read it again and repeat the change on what it is now.",
        fields=fields,
    )


def _no_such_version(object_kind: str, object_id: str, version: int) -> RefusedError:
    return RefusedError(
        "changed_meanwhile",
        f"What was sent is no version of the {object_kind} {object_id}.",
        kind="conflict",
        hint='Send the ETag as it was answered, quotation marks included, such as "3-0123456789ab".',
        fields={"version": str(version)},
    )


def check(*, object_kind: str, object_id: str, version: int, expected_version: int | None) -> None:
    """Refuses when the caller named a version and the object has another one (0 = it does not exist)."""
    if expected_version is not None and expected_version != version:
        raise changed_meanwhile(
            object_kind=object_kind, object_id=object_id, version=version, expected_version=expected_version
        )


def apply(
    rows: models.QuerySet[Row],
    *,
    address: Mapping[str, Any],
    values: Mapping[str, Any],
    object_kind: str,
    object_id: str,
    expected_version: int | None,
) -> Applied[Row]:
    """Makes the one row with `address` have `values`; creates it when there is none. Call inside a transaction.

    `expected_version` 0 = it must not exist yet, None = any.
    """
    row = rows.select_for_update().filter(**address).first()
    version = 0 if row is None else _version(row)
    check(object_kind=object_kind, object_id=object_id, version=version, expected_version=expected_version)
    if row is None:
        made = _create(rows, {**address, **values})
        if made is not None:
            return Applied(made, changed=True, created=True, fields=tuple(values))
        # somebody made it between our look and our write: theirs is what this one changes
        row = rows.select_for_update().get(**address)
        version = _version(row)
        check(object_kind=object_kind, object_id=object_id, version=version, expected_version=expected_version)
    fields = tuple(name for name, value in values.items() if getattr(row, name) != value)
    if not fields:
        return Applied(row, changed=False, created=False)
    for name in fields:
        setattr(row, name, values[name])
    row.version = version + 1  # type: ignore[attr-defined]
    row.save(update_fields=[*fields, "version"])
    return Applied(row, changed=True, created=False, fields=fields)


def _create(rows: models.QuerySet[Row], values: Mapping[str, Any]) -> Row | None:
    try:
        with transaction.atomic():
            return rows.create(**values)
    except IntegrityError:
        return None


def _version(row: models.Model) -> int:
    version: int = row.version  # type: ignore[attr-defined]
    return version
