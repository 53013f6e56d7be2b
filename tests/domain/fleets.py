"""Small fleets for tests of placement and reconciliation."""

from __future__ import annotations

from typing import Any

from controlplane.domain.card_memory import CardMemory, Claim
from controlplane.domain.placement import Need, Site, Slot
from controlplane.domain.reconcile import Member, Wanted


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
