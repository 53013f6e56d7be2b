"""The degradation ladder of one deployment, climbed by each of its tiers for itself.

How saturated a tier is says its own queue, the queues of the tiers above it (of more weight), and what all share. So a
long queue of batch makes no interactive answer worse, and where interactive suffers all below it are degraded with it,
the lowest never later than the others. A step that refuses takes the lightest tier that it concerns first, and one tier
more only while that was not enough; the heaviest is let in again first. Where all that could run is refused, and what
ran has ended, the heaviest is let in again at once, and another one each second that this brings nothing: an engine
that does nothing is spared nothing.

Does not do
    I/O and clocks; metrics and journal are the caller's, from `Change`.
Concurrency
    One owner; changes in place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from controlplane.domain.degradation import (
    RAISE_AFTER_S,
    Asked,
    Change,
    Degrader,
    Ladder,
    Outcome,
)
from controlplane.domain.saturation import Saturation, Signal, saturation

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

    __slots__ = ("_lightest_first", "by_tier", "ladder", "level", "value")

    def __init__(self, ladder: Ladder | None = None, tiers: Mapping[str, float] | None = None) -> None:
        self.ladder = ladder or Ladder()
        self.level = 0
        self.value = 0.0
        self.by_tier: dict[str, Degrader] = {}
        self._lightest_first: list[str] = []
        self.set_rules(self.ladder, tiers or {})

    def set_rules(self, ladder: Ladder, tiers: Mapping[str, float]) -> None:
        """Takes over a changed ladder and which tiers there are, with their weights; a level that is no more is left at
        once."""
        self.ladder = ladder
        self.by_tier = {name: self.by_tier.get(name) or Degrader() for name in tiers}
        for degrader in self.by_tier.values():
            degrader.set_ladder(ladder)
        heaviest_first = sorted(tiers, key=lambda name: -tiers[name])
        self._lightest_first = heaviest_first[::-1]  # of equal ones the one that is named last
        self._add_up()

    def observe(
        self, now_is: Mapping[str, Saturation], now: float, *, frozen: bool = False, is_idle: bool = False
    ) -> list[Change]:
        """Takes one second of each tier; returns the steps that were climbed or left, with the tiers to which they do
        anything. A step that does nothing to any of these is told to nobody. `is_idle`: nothing runs, nothing waits."""
        changes: list[Change] = []
        in_vain = next((name for name in reversed(self._lightest_first) if self.by_tier[name].sheds(name)), "")
        for name in reversed(self._lightest_first):
            degrader = self.by_tier[name]
            change = degrader.observe(
                now_is.get(name, Saturation(None, "unknown")), now, frozen=frozen,
                may_climb=self._may_climb(name, now), may_leave=self._may_leave(name),
                in_vain=is_idle and name == in_vain,
            )  # fmt: skip
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
        """Returns how long requests of a tier are shed, as far as its own steps tell. The heaviest of those that are
        shed is let in as soon as the engine is idle, which comes early where nobody else is let in."""
        degrader = self.by_tier.get(tier)
        found = 0.0 if degrader is None else degrader.sheds_for_s(tier, now)
        is_last = found > 0.0 and all(one.sheds(name) for name, one in self.by_tier.items()) and self._is_heaviest(tier)
        return min(found, RAISE_AFTER_S) if is_last else found

    def check_invariants(self) -> None:
        """Raises AssertionError where a level is not one of the ladder."""
        for degrader in self.by_tier.values():
            degrader.check_invariants()
        levels = [one.level for one in self.by_tier.values()]
        assert self.level == max(levels, default=0), f"level {self.level} of {levels}"

    def _may_climb(self, name: str, now: float) -> bool:
        """Whether the lighter tiers that its next step refuses have been refused for so long that it did not help."""
        own = self.by_tier[name]
        step, place = own.next_step, own.level
        if step is None or step.kind != "shed" or not step.concerns(name):
            return True
        lighter = [self.by_tier[one] for one in self._lighter_than(name) if step.concerns(one)]
        return all(one.level > place and now - one.climbed_at[place] >= RAISE_AFTER_S for one in lighter)

    def _may_leave(self, name: str) -> bool:
        """Whether the heavier tiers that its last step refuses are let in again."""
        own = self.by_tier[name]
        if not own.level:
            return True
        step = self.ladder.steps[own.level - 1]
        if step.kind != "shed" or not step.concerns(name):
            return True
        lighter = {name, *self._lighter_than(name)}
        heavier = [one for other, one in self.by_tier.items() if other not in lighter and step.concerns(other)]
        return all(one.level < own.level for one in heavier)

    def _is_heaviest(self, name: str) -> bool:
        return self._lightest_first[-1] == name

    def _lighter_than(self, name: str) -> list[str]:
        return self._lightest_first[: self._lightest_first.index(name)]

    def _add_up(self) -> None:
        self.level = max((one.level for one in self.by_tier.values()), default=0)
        self.value = max((one.value for one in self.by_tier.values()), default=0.0)
