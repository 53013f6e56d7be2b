"""Which objects of the journal still have a page: it outlives them, and a link to what is gone leads nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from controlplane.catalog.models import Model
from controlplane.console import frame
from controlplane.deployments.models import Deployment, Replica
from controlplane.fleet.models import Node
from controlplane.journal.models import Decision, Event

Row = Event | Decision
Since = Mapping[str, datetime]  # name -> from when on it means the object that there is now

_ALWAYS = datetime.min.replace(tzinfo=UTC)
_LIVING: Mapping[str, Callable[[set[str]], Since]] = {
    "deployment": lambda names: dict(Deployment.objects.filter(name__in=names).values_list("name", "created_at")),
    "replica": lambda ids: dict.fromkeys(Replica.objects.filter(pk__in=ids).values_list("pk", flat=True), _ALWAYS),
    "node": lambda names: dict.fromkeys(Node.objects.filter(name__in=names).values_list("name", flat=True), _ALWAYS),
    "model": lambda names: dict.fromkeys(Model.objects.filter(name__in=names).values_list("name", flat=True), _ALWAYS),
}


def linked(rows: Iterable[Row]) -> list[tuple[Row, str]]:
    """Returns each row with the address of its object, "" when the object is gone or has no page.

    A deployment that was made later under the same name is another one. Asks once for each kind that occurs.
    """
    found = list(rows)
    asked: dict[str, set[str]] = {}
    for row in found:
        kind, name = _object(row)
        if kind in _LIVING:
            asked.setdefault(kind, set()).add(name)
    living = {kind: _LIVING[kind](names) for kind, names in asked.items()}
    return [(row, frame.object_url(row.object_kind, row.object_id) if _lives(row, living) else "") for row in found]


def _lives(row: Row, living: Mapping[str, Since]) -> bool:
    kind, name = _object(row)
    if kind not in living:
        return True
    since = living[kind].get(name)
    return since is not None and (row.at if isinstance(row, Event) else row.last_at) >= since


def _object(row: Row) -> tuple[str, str]:
    """A variant's page is its model's."""
    if row.object_kind in ("model", "variant"):
        return "model", row.object_id.partition("/")[0]
    return row.object_kind, row.object_id
