"""Candidates that a placement passed over: every one by name, and each reason once.

In a large fleet most candidates drop out for one of a few reasons, so what is kept is the reasons with those they hold
for; cards by their index in the node, and nodes of which it is the same cards together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Indexes = tuple[int, ...]  # of cards in their node, ascending
CardGroups = tuple[tuple[str, Indexes], ...]  # reason -> cards, of one node


@dataclass(frozen=True, slots=True, order=True)
class CardsAt:
    """These cards of each of these nodes."""

    indexes: Indexes
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """Whole nodes, or single cards of nodes, that were not taken for one reason.

    `more_nodes` and `more_cards` were counted and not named, by versions of before all were named.
    """

    reason: str
    nodes: tuple[str, ...] = ()
    cards: tuple[CardsAt, ...] = ()
    more_nodes: int = 0
    more_cards: int = 0

    @property
    def count(self) -> int:
        """How many candidates it holds for; cards count one by one."""
        cards = sum(len(one.indexes) * len(one.nodes) for one in self.cards)
        return len(self.nodes) + cards + self.more_nodes + self.more_cards


class CardReasons:
    """Why cards of many nodes can't be had, node by node; what stays the same is not put together again. One owner."""

    __slots__ = ("_built", "_groups", "_of_node")

    def __init__(self) -> None:
        self._of_node: dict[str, CardGroups] = {}
        self._groups: dict[str, dict[Indexes, dict[str, None]]] = {}  # reason -> cards -> nodes
        self._built: dict[str, Rejected] = {}  # reason -> what it holds for, as long as it is the same

    def put(self, node: str, groups: CardGroups) -> None:
        """Sets what is known of a node's cards."""
        for reason, indexes in self._of_node.get(node, ()):
            nodes = self._groups[reason][indexes]
            del nodes[node]
            if not nodes:
                del self._groups[reason][indexes]
            self._built.pop(reason, None)
        for reason, indexes in groups:
            self._groups.setdefault(reason, {}).setdefault(indexes, {})[node] = None
            self._built.pop(reason, None)
        self._of_node[node] = groups

    def rejected(self) -> tuple[Rejected, ...]:
        """Returns each reason with the cards it holds for."""
        for reason in [one for one in self._groups if one not in self._built]:
            groups = self._groups[reason]
            if groups:
                cards = tuple(CardsAt(indexes, tuple(sorted(nodes))) for indexes, nodes in groups.items())
                self._built[reason] = Rejected(reason, cards=cards)
            else:
                del self._groups[reason]
        return tuple(self._built.values())


def of_nodes(reasons: Iterable[tuple[str, str]]) -> list[Rejected]:
    """Returns each reason with the nodes it holds for, given (node, reason)."""
    found: dict[str, list[str]] = {}
    for node, reason in reasons:
        found.setdefault(reason, []).append(node)
    return [Rejected(reason, tuple(nodes)) for reason, nodes in found.items()]


def of_node(node: str, groups: CardGroups) -> list[Rejected]:
    """Returns the reasons of cards of one node."""
    return [Rejected(reason, cards=(CardsAt(indexes, (node,)),)) for reason, indexes in groups]


def by_reason(reasons: Iterable[tuple[int, str]]) -> CardGroups:
    """Returns reason -> cards, of the cards of one node."""
    found: dict[str, list[int]] = {}
    for index, reason in reasons:
        found.setdefault(reason, []).append(index)
    return tuple((reason, tuple(sorted(indexes))) for reason, indexes in found.items())


def to_plain(rejected: Sequence[Rejected]) -> list[dict[str, Any]]:
    """Returns what is stored, without what is empty."""
    return [
        {"reason": one.reason}
        | ({"nodes": list(one.nodes)} if one.nodes else {})
        | ({"cards": {ranges(at.indexes): list(at.nodes) for at in one.cards}} if one.cards else {})
        | ({"more_nodes": one.more_nodes} if one.more_nodes else {})
        | ({"more_cards": one.more_cards} if one.more_cards else {})
        for one in rejected
    ]


def from_plain(stored: Iterable[Mapping[str, Any]]) -> tuple[Rejected, ...]:
    """Returns what was stored."""
    return tuple(
        Rejected(
            one["reason"],
            tuple(one.get("nodes", ())),
            tuple(sorted(CardsAt(of_ranges(text), tuple(nodes)) for text, nodes in one.get("cards", {}).items())),
            one.get("more_nodes", 0),
            one.get("more_cards", 0),
        )
        for one in stored
    )


def ranges(indexes: Sequence[int]) -> str:
    """Returns ascending numbers as text, neighbours together: `0-3,5`."""
    parts: list[list[int]] = []
    for index in indexes:
        if parts and index == parts[-1][-1] + 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(str(end) for end in part) for part in parts)


def of_ranges(text: str) -> Indexes:
    """Returns the numbers of such a text."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)
