"""Lists in pages: `?limit=` rows from `?cursor=` on, with the total count and links to the pages beside.

Guarantees
    A cursor remembers the last row shown, not its position, so rows that are added or removed meanwhile neither
    repeat nor hide others. A cursor is signed: it only leads where a page before has led.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core import signing
from django.db.models import Q, QuerySet
from rest_framework import exceptions

DEFAULT_LIMIT = 50
LARGEST_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of a list; a cursor is None where there is nothing further."""

    rows: Sequence[Any]
    count: int
    next_cursor: str | None
    previous_cursor: str | None


def page(rows: QuerySet[Any, Any] | Sequence[Any], *, order: Sequence[str], limit: int, cursor: str | None) -> Page:
    """Returns one page of `rows` in `order` (names of never-null fields, `-` for descending, together unique).

    Few rows of which not all are stored may be a sequence; their order is one ascending field.
    """
    salt = f"page:{','.join(order)}"
    backwards, after = _read(cursor, salt)
    wanted = [_flipped(name) for name in order] if backwards else list(order)
    if isinstance(rows, QuerySet):
        found = rows.order_by(*wanted)
        chosen = list((found if after is None else found.filter(_beyond(wanted, after)))[: limit + 1])
    else:
        chosen = _in_memory(rows, order[0], backwards, after)[: limit + 1]
    more, chosen = len(chosen) > limit, chosen[:limit]
    if backwards:
        chosen.reverse()
    has_next = backwards or more
    has_previous = more if backwards else after is not None
    return Page(
        rows=chosen,
        count=rows.count() if isinstance(rows, QuerySet) else len(rows),
        next_cursor=_cursor(chosen[-1], order, False, salt) if has_next and chosen else None,
        previous_cursor=_cursor(chosen[0], order, True, salt) if has_previous and chosen else None,
    )


def _in_memory(rows: Sequence[Any], field: str, backwards: bool, after: list[Any] | None) -> list[Any]:
    """Returns the rows that come after `after`, in order."""
    found = sorted(rows, key=lambda row: _value(row, field), reverse=backwards)
    if after is None:
        return found
    return [row for row in found if (_value(row, field) < after[0] if backwards else _value(row, field) > after[0])]


def _read(cursor: str | None, salt: str) -> tuple[bool, list[Any] | None]:
    if not cursor:
        return False, None
    try:
        backwards, values = signing.loads(cursor, salt=salt)
    except signing.BadSignature:
        raise exceptions.ValidationError({"cursor": ["This is not a cursor of this list."]}) from None
    return bool(backwards), list(values)


def _cursor(row: Any, order: Iterable[str], backwards: bool, salt: str) -> str:
    return signing.dumps([backwards, [_plain(_value(row, name.lstrip("-"))) for name in order]], salt=salt)


def _value(row: Any, path: str) -> Any:
    if isinstance(row, Mapping):
        return row[path]
    for name in path.split("__"):
        row = getattr(row, name)
    return row


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _flipped(name: str) -> str:
    return name[1:] if name.startswith("-") else f"-{name}"


def _beyond(order: Sequence[str], values: Sequence[Any]) -> Q:
    """Returns the condition "comes after `values` in `order`": the first field that differs decides."""
    beyond, equal = Q(), Q()
    for name, value in zip(order, values, strict=True):
        field, comparison = name.lstrip("-"), "lt" if name.startswith("-") else "gt"
        beyond |= equal & Q(**{f"{field}__{comparison}": value})
        equal &= Q(**{field: value})
    return beyond
