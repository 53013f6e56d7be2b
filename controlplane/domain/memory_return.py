"""Whether the memory of an engine that has ended is seen to be free again.

Guarantees
    Only a reading frees memory, never the passing of time: what does not come back stays reserved as "not back".
    Where the driver tells what each replica uses, that counts and no claim does. Else the room that a claim of one who
    starts has not filled yet never hides what the ended one left behind: as long as others start, a reading that they
    could explain too says nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from controlplane.domain.card_memory import CardMemory, Claim, tolerated_bytes

READ_EVERY_S = 5.0  # a node reads its cards so often: a reading that came later than that after an end is newer
RELEASE_WITHIN_S = 60.0  # then memory that a reading shows in use is told as not back
UNCLEAR_WITHIN_S = 600.0  # then the same is told where no reading could show it

Verdict = Literal["back", "held", "unclear"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a card tells. `newer`: it was read after the end; `used_bytes` None = the card does not say. `by_owner`: of
    those whose processes it lists with their use."""

    used_bytes: int | None
    newer: bool
    by_owner: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Return:
    """What a reading says of the memory of one who ended. `missing_bytes` of it at most are still in use; `because`
    says why nothing can be seen where the verdict is unclear."""

    verdict: Verdict
    missing_bytes: int
    because: str = ""

    def is_late(self, waited_s: float) -> bool:
        """Whether it has to be told after so long."""
        return waited_s >= {"back": float("inf"), "held": RELEASE_WITHIN_S, "unclear": UNCLEAR_WITHIN_S}[self.verdict]


def judge(card: CardMemory, owner: str, reading: Reading, steady: Collection[str]) -> Return:
    """Returns whether the memory of an owner who ended is back.

    `card` knows of foreign use what is named. `steady` are the owners that are up: what they may use they use, where no
    reading tells what it is. It is back when no more is used than by them, by others who are named, by what others left
    behind, and a little beside.
    """
    (mine,) = (claim for claim in card.claims if claim.owner == owner)
    whole = card.total_bytes if mine.size_bytes is None else mine.size_bytes
    if reading.used_bytes is None or card.total_bytes is None or not reading.newer:
        return Return("unclear", whole or 0, why_unclear(reading))
    others = [claim for claim in card.claims if claim.owner != owner]
    explained = card.foreign_seen_bytes + sum(_accounted(claim, reading, steady) for claim in others)
    missing = min(whole or 0, max(0, reading.used_bytes - explained))
    slack = tolerated_bytes(card.total_bytes)
    if reading.used_bytes <= explained + slack:
        return Return("back", 0)
    known = {*steady, *reading.by_owner}
    starting = sum(one.size_bytes or 0 for one in others if not one.releasing and one.owner not in known)
    if reading.used_bytes <= explained + starting + slack:
        return Return("unclear", missing, why_unclear(reading))
    return Return("held", missing)


def why_unclear(reading: Reading) -> str:
    """Returns why a reading says nothing of what an owner left behind."""
    if not reading.newer:
        return "no newer reading of the card has come"
    if reading.used_bytes is None:
        return "the card does not tell its use any more"
    return "another engine starts on the card, and the use may be its own"


def _accounted(claim: Claim, reading: Reading, steady: Collection[str]) -> int:
    """What another claim surely explains of the use."""
    if claim.releasing:
        return claim.missing_bytes or 0
    if claim.owner in reading.by_owner:
        return reading.by_owner[claim.owner]
    return (claim.size_bytes or 0) if claim.owner in steady else 0
