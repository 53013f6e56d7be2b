"""What other applications add to the routing snapshot, which they stand above: they register themselves here."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.domain.routing import RoutingSnapshot

Adds = Callable[[RoutingSnapshot], RoutingSnapshot]
_ADDING: list[Adds] = []


def register(adds: Adds) -> None:
    """Has every snapshot go through `adds` from now on; again changes nothing."""
    if adds not in _ADDING:
        _ADDING.append(adds)


def add_all(content: RoutingSnapshot) -> RoutingSnapshot:
    """Returns the snapshot with what everybody adds."""
    for adds in _ADDING:
        content = adds(content)
    return content
