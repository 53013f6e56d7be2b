"""The degradation ladder of one deployment, climbed by each of its tiers for itself.

How saturated a tier is says its own queue, the queues of the tiers above it (of more weight), and what all share. So a
long queue of batch makes no interactive answer worse, and where interactive suffers all below it are degraded with it,
the lowest never later than the others.

Does not do
    I/O and clocks; metrics and journal are the caller's, from `Change`.
Concurrency
    One owner; changes in place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from controlplane.domain.degradation import (
    Asked,
    Change,
    Degrader,
    Ladder,
    Outcome,
    Saturation,
    Signal,
    saturation,
)

RATIO_OF_FEW = 5  # what happened to fewer requests in a second says little: it counts as a part of so many


@dataclass(frozen=True, slots=True)
class TierSecond:
    """One second of one tier. `wait_ratio`: its longest wait over the limit; `came`: requests that were let in or
    refused for want of room, of which `refused` were."""

    weight: float
    wait_ratio: float = 0.0
    came: int = 0
    refused: int = 0


def saturations(tiers: Mapping[str, TierSecond], kv_usage: float | None) -> dict[str, Saturation]:
    """Returns how near each tier is to its limits; `kv_usage` is of the replicas that all share."""
    found = {}
    for name, own in tiers.items():
        counted = [one for one in tiers.values() if one.weight >= own.weight]
        refused = sum(one.refused for one in counted) / max(RATIO_OF_FEW, sum(one.came for one in counted))
        found[name] = saturation(Signal(max(one.wait_ratio for one in counted), kv_usage, refused))
    return found


class TierLadders:
    """Where each tier of a deployment stands. `level` and `value` are the highest of all."""

    __slots__ = ("by_tier", "ladder", "level", "value")

    def __init__(self, ladder: Ladder | None = None, tiers: Collection[str] = ()) -> None:
        self.ladder = ladder or Ladder()
        self.level = 0
        self.value = 0.0
        self.by_tier: dict[str, Degrader] = {}
        self.set_rules(self.ladder, tiers)

    def set_rules(self, ladder: Ladder, tiers: Collection[str]) -> None:
        """Takes over a changed ladder and which tiers there are; a level that is no more is left at once."""
        self.ladder = ladder
        self.by_tier = {name: self.by_tier.get(name) or Degrader() for name in tiers}
        for degrader in self.by_tier.values():
            degrader.set_ladder(ladder)
        self._add_up()

    def observe(self, now_is: Mapping[str, Saturation], now: float, *, frozen: bool = False) -> list[Change]:
        """Takes one second of each tier; returns the steps that were climbed or left, with the tiers to which they do
        anything. A step that does nothing to any of these is told to nobody."""
        changes: list[Change] = []
        for name, degrader in self.by_tier.items():
            change = degrader.observe(now_is.get(name, Saturation(None, "unknown")), now, frozen=frozen)
            if change is None or not change.step.concerns(name):
                continue
            for place, other in enumerate(changes):
                if (other.before, other.after) == (change.before, change.after):
                    changes[place] = replace(other, tiers=(*other.tiers, name))
                    break
            else:
                changes.append(replace(change, tiers=(name,)))
        self._add_up()
        return changes

    def apply(self, asked: Asked, reachable: Collection[str] | None = None) -> Outcome:
        """Returns what to do to a request at the level of its tier (see `Degrader.apply`)."""
        degrader = self.by_tier.get(asked.tier)
        return Outcome(asked.max_tokens) if degrader is None else degrader.apply(asked, reachable)

    def sheds_for_s(self, tier: str, now: float) -> float:
        """Returns how long requests of a tier are shed at least, if its load stays as it is or falls."""
        degrader = self.by_tier.get(tier)
        return 0.0 if degrader is None else degrader.sheds_for_s(tier, now)

    def check_invariants(self) -> None:
        """Raises AssertionError where a level is not one of the ladder."""
        for degrader in self.by_tier.values():
            degrader.check_invariants()
        levels = [one.level for one in self.by_tier.values()]
        assert self.level == max(levels, default=0), f"level {self.level} of {levels}"

    def _add_up(self) -> None:
        self.level = max((one.level for one in self.by_tier.values()), default=0)
        self.value = max((one.value for one in self.by_tier.values()), default=0.0)
