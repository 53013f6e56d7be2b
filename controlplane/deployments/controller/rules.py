"""What other applications add to the routing snapshot, and do in each round of the leading controller; they stand above
it, so they register themselves here."""

from __future__ import annotations

from collections.abc import Callable

import redis

from controlplane.domain.routing import RoutingSnapshot

Adds = Callable[[RoutingSnapshot], RoutingSnapshot]
Does = Callable[[redis.Redis], object]
_ADDING: list[Adds] = []
_DOING: list[Does] = []


def register(adds: Adds) -> None:
    """Has every snapshot go through `adds` from now on; again changes nothing."""
    if adds not in _ADDING:
        _ADDING.append(adds)


def add_all(content: RoutingSnapshot) -> RoutingSnapshot:
    """Returns the snapshot with what everybody adds."""
    for adds in _ADDING:
        content = adds(content)
    return content


def register_round(does: Does) -> None:
    """Has `does` called in each round of the leading controller, with its client of Valkey; again changes nothing."""
    if does not in _DOING:
        _DOING.append(does)


def do_all(client: redis.Redis) -> None:
    """Does what everybody has to do in a round."""
    for does in _DOING:
        does(client)
