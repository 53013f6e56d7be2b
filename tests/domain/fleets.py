"""Small fleets for tests of placement and reconciliation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.domain.card_memory import CardMemory, Claim
from controlplane.domain.placement import Need, Site, Slot
from controlplane.domain.reconcile import Member, Wanted
from controlplane.domain.rejections import Rejected


def make_slot(uuid: str = "a", *, holder: str = "", total: int | None = None, **fields: Any) -> Slot:
    """A card; `holder` has all of it."""
    memory = CardMemory(total, (Claim(holder),) if holder else ())
    return Slot(**{"uuid": uuid, "kind": "gpu", "name": "H100", "memory": memory, **fields})


def make_site(name: str = "n1", cards: int = 2, **fields: Any) -> Site:
    slots = tuple(make_slot(f"{name}/{index}", index=index) for index in range(cards))
    return Site(**{"name": name, "pool": "default", "engines": {"vllm": "0.32"}, "slots": slots, **fields})


def make_need(accelerators: int = 1, **fields: Any) -> Need:
    return Need(**{"engine": "vllm", "pool": "default", "accelerators": accelerators, **fields})


def make_wanted(replicas: int = 1, **fields: Any) -> Wanted:
    given = {"name": "chat", "engine": "vllm", "managed": True, "pool": "default", "revision": 1, **fields}
    return Wanted(replicas=replicas, **given)


def make_member(id: str, state: str = "ready", **fields: Any) -> Member:
    return Member(**{"id": id, "revision": 1, "state": state, "goal": "run", "created_at": 0.0, "node": "n1", **fields})


def named(rejected: Iterable[Rejected]) -> list[tuple[str, int | None, str]]:
    """Each candidate by itself: node, card (None = the whole node), reason."""
    found: list[tuple[str, int | None, str]] = []
    for one in rejected:
        found += [(node, None, one.reason) for node in one.nodes]
        found += [(node, index, one.reason) for at in one.cards for node in at.nodes for index in at.indexes]
    return found


def reasons_of_nodes(rejected: Iterable[Rejected]) -> dict[str, str]:
    return {node: reason for node, card, reason in named(rejected) if card is None}


def reasons_of_cards(rejected: Iterable[Rejected]) -> dict[int, str]:
    """Of a fleet of one node."""
    return {card: reason for _node, card, reason in named(rejected) if card is not None}
