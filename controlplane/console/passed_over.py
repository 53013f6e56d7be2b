"""What a placement passed over, as pages show it: a line for each reason, with the first names and the rest apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.domain.rejections import Rejected, ranges

SHOWN = 8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, or some cards of it: `cards` are their indexes as text, empty for the whole node."""

    node: str
    cards: str = ""

    def __str__(self) -> str:
        return f"{self.node} ({self.cards})" if self.cards else self.node


@dataclass(frozen=True, slots=True)
class Line:
    """One reason. `count` tells how many it holds for, in words; `only` is the one candidate where there is but one;
    `rest` are the names beyond `shown`, as one text."""

    reason: str
    count: str
    only: Candidate | None
    shown: tuple[Candidate, ...]
    rest: str = ""
    rest_count: int = 0


def lines(rejected: Sequence[Rejected]) -> list[Line]:
    """Returns a line for each reason."""
    return [_line(one) for one in rejected]


def _line(one: Rejected) -> Line:
    candidates = [Candidate(node) for node in one.nodes]
    cards = [Candidate(node, ranges(at.indexes).replace("-", "–")) for at in one.cards for node in at.nodes]
    candidates += sorted(cards, key=lambda card: card.node)
    rest = candidates[SHOWN:]
    only = candidates[0] if one.count == 1 and candidates else None
    return Line(one.reason, _count(one), only, tuple(candidates[:SHOWN]), ", ".join(map(str, rest)), len(rest))


def _count(one: Rejected) -> str:
    nodes = len(one.nodes) + one.more_nodes
    cards = one.count - nodes
    parts: list[str] = []
    if nodes:
        parts.append(ngettext("%(n)d node", "%(n)d nodes", nodes) % {"n": nodes})
    if cards:
        parts.append(ngettext("%(n)d card", "%(n)d cards", cards) % {"n": cards})
    unnamed = one.more_nodes + one.more_cards
    if unnamed and unnamed < one.count:
        parts.append(_("%(n)d of them not named") % {"n": unnamed})
    return ", ".join(parts)
