"""The degradation ladder: what a saturated deployment does less well, so that it need not refuse.

One signal (`saturation`): at 1.0 requests are refused, so from 0.8 on the ladder is climbed, one step at a time as long
as that lasts; when the load is clearly lower for long enough it is left step by step. Steps that are climbed apply
together, each to its own tiers. A client may opt out of answers that are worse; it then waits, or is refused.

Does not do
    I/O and clocks: `now` is seconds of one monotonic clock. Metrics and journal are the caller's, from `Change`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controlplane.domain.saturation import RAISE_AT, Cause, Saturation

KINDS = ("cap_tokens", "divert", "shed")
KIND_OF = {"max_tokens": "cap_tokens", "deployment": "divert"}  # field of a step -> the kind that uses it

LOWER_AT = 0.6
RAISE_AFTER_S, LOWER_AFTER_S = 5.0, 15.0  # it must last so long, and as long since the last change
SMOOTH_S = 5.0  # e-folding time of the signal
CAP_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Step:
    """`cap_tokens`: answers have at most `max_tokens`. `divert`: requests go to `deployment` (a smaller model, or one
    elsewhere). `shed`: requests are refused, those of the lightest tier first. A kind that only a newer version knows
    does nothing, so that its snapshot can be read. Empty `tiers` = all tiers."""

    kind: str
    tiers: tuple[str, ...] = ()
    max_tokens: int = CAP_TOKENS
    deployment: str = ""

    def concerns(self, tier: str) -> bool:
        """Returns whether it does anything to requests of that tier."""
        return not self.tiers or tier in self.tiers


@dataclass(frozen=True, slots=True)
class Ladder:
    """Steps in the order in which they are climbed; none = this deployment never degrades."""

    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A step up or down, for the journal: levels count climbed steps."""

    before: int
    after: int
    step: Step  # that was climbed, or left
    why: str
    numbers: Mapping[str, float]
    tiers: tuple[str, ...] = ()  # that climbed or left it


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A `Change` on its way from a gateway to the journal. `kind` is that of the step that was climbed, or left."""

    deployment: str
    at: float  # UTC seconds
    before: int
    after: int
    kind: str
    why: str
    saturation: float
    tiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `max_tokens` None = it named none, and may answer at length."""

    tier: str
    max_tokens: int | None = None
    opted_out: bool = False
    diverted: bool = False  # from another deployment; it is not sent on again


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to do to a request. `header` is the value of `x-headworks-degraded`, "" = nothing was done and there is no
    header. `why` says what a refused client is told."""

    max_tokens: int | None
    divert_to: str = ""
    shed: bool = False
    header: str = ""
    why: str = ""


class Degrader:
    """Where one tier of a deployment stands on its ladder. One owner; changes in place."""

    __slots__ = ("_asked_since", "_at", "_calm_since", "_changed_at", "climbed_at", "ladder", "level", "value")

    def __init__(self, ladder: Ladder | None = None) -> None:
        self.ladder = ladder or Ladder()
        self.level = 0
        self.value = 0.0  # the smoothed signal
        self.climbed_at: list[float] = []  # when it climbed each step on which it stands
        self._at: float | None = None
        self._changed_at = -math.inf
        self._asked_since: float | None = None  # since when it is saturated
        self._calm_since: float | None = None

    def set_ladder(self, ladder: Ladder) -> None:
        """Takes over a changed ladder; a level that it does not have any more is left at once."""
        self.ladder = ladder
        self.level = min(self.level, len(ladder.steps))
        del self.climbed_at[self.level :]

    @property
    def next_step(self) -> Step | None:
        """The step that would be climbed next; None = it stands on the last one."""
        return self.ladder.steps[self.level] if self.level < len(self.ladder.steps) else None

    def observe(
        self,
        now_is: Saturation,
        now: float,
        *,
        frozen: bool = False,
        may_climb: bool = True,
        may_leave: bool = True,
        in_vain: bool = False,
    ) -> Change | None:
        """Takes the signal in, best once a second; returns the step that was climbed or left.

        Where nothing is known everything stays; `frozen` (automatic changes are switched off) as well. `may_climb` and
        `may_leave`: what other tiers allow, see `controlplane.domain.tier_degradation`. `in_vain`: the tier is refused
        while nothing runs and nothing waits, so a step is left without waiting for a time of calm.
        """
        if now_is.value is None:
            self._asked_since = self._calm_since = None
            return None
        self._smooth(now_is.value, now)
        self._asked_since = _since(self._asked_since, now, self.value >= RAISE_AT)
        self._calm_since = _since(self._calm_since, now, self.value <= LOWER_AT)
        if frozen:
            return None
        if may_climb and self._lasted(self._asked_since, now, RAISE_AFTER_S) and self.next_step is not None:
            return self._move(1, now_is.cause, now)
        if may_leave and in_vain and self.level > 0:
            return self._move(-1, "idle", now)
        if may_leave and self._lasted(self._calm_since, now, LOWER_AFTER_S) and self.level > 0:
            return self._move(-1, now_is.cause, now)
        return None

    def apply(self, asked: Asked, reachable: Collection[str] | None = None) -> Outcome:
        """Returns what to do to a request at the level of now. `reachable`: deployments that its key may use and that
        have a replica; None = all. A step that sends elsewhere is passed over where that is not reachable."""
        max_tokens, divert_to, done = asked.max_tokens, "", list[str]()
        for step in self.ladder.steps[: self.level]:
            if not step.concerns(asked.tier):
                continue
            if step.kind == "shed":
                why = f"The deployment is saturated and does not take requests of the tier {asked.tier} now."
                return Outcome(asked.max_tokens, shed=True, header="shed", why=why)
            if asked.opted_out:
                continue
            if step.kind == "cap_tokens" and (max_tokens is None or max_tokens > step.max_tokens):
                max_tokens = step.max_tokens
            elif step.kind == "divert" and not (asked.diverted or divert_to):
                divert_to = step.deployment if reachable is None or step.deployment in reachable else ""
        if max_tokens != asked.max_tokens:
            done.append(f"max_tokens={max_tokens}")
        if divert_to:
            done.append(f"model={divert_to}")
        return Outcome(max_tokens, divert_to, header=", ".join(done))

    def sheds(self, tier: str) -> bool:
        """Returns whether requests of a tier are refused at the level of now."""
        return any(step.kind == "shed" and step.concerns(tier) for step in self.ladder.steps[: self.level])

    def sheds_for_s(self, tier: str, now: float) -> float:
        """Returns how long requests of a tier are shed, if the engine does not fall idle before: the step that does it
        is left after those above it, each of which takes its time of calm."""
        climbed = self.ladder.steps[: self.level]
        first = next((place for place, step in enumerate(climbed) if step.kind == "shed" and step.concerns(tier)), None)
        if first is None:
            return 0.0
        calm_s = 0.0 if self._calm_since is None else now - max(self._calm_since, self._changed_at)
        return LOWER_AFTER_S * (self.level - first) - min(max(0.0, calm_s), LOWER_AFTER_S)

    def check_invariants(self) -> None:
        """Raises AssertionError where the level is not one of the ladder."""
        assert 0 <= self.level <= len(self.ladder.steps), f"level {self.level} of {len(self.ladder.steps)}"
        assert len(self.climbed_at) == self.level, f"{len(self.climbed_at)} times of {self.level} steps"
        assert self._asked_since is None or self._calm_since is None, "saturated and calm at once"

    def _smooth(self, value: float, now: float) -> None:
        value = min(value, 2.0)  # a single outlier must not outlast the load by minutes
        if self._at is None:
            self._at = now  # the first value stands for itself as little as any: it starts from rest
        elapsed_s = max(0.0, now - self._at)
        kept = math.exp(-elapsed_s / SMOOTH_S)
        self.value = self.value * kept + value * (1.0 - kept)
        self._at = max(self._at, now)

    def _lasted(self, since: float | None, now: float, long_s: float) -> bool:
        return since is not None and now - since >= long_s and now - self._changed_at >= long_s

    def _move(self, by: int, cause: Cause, now: float) -> Change:
        before, self.level = self.level, self.level + by
        self._changed_at = now
        if by > 0:
            self.climbed_at.append(now)
        else:
            del self.climbed_at[self.level :]
        step = self.ladder.steps[max(before, self.level) - 1]
        return Change(before, self.level, step, _why(by, cause, self.value), {"saturation": round(self.value, 3)})


def _since(before: float | None, now: float, holds: bool) -> float | None:
    if not holds:
        return None
    return now if before is None else before


def _why(by: int, cause: Cause, value: float) -> str:
    if cause == "idle":
        return "Requests were refused while nothing ran and nothing waited any more."
    if by < 0:
        return f"The saturation fell to {value:.2f}, and has been below {LOWER_AT} for {LOWER_AFTER_S:.0f} s."
    if cause == "kv":
        return f"The saturation is {value:.0%}: the KV cache is nearly full."
    if cause == "refusals":
        return f"The saturation is {value:.0%}: requests are refused for want of room."
    return f"The saturation is {value:.0%}: requests wait nearly as long as their tier allows."


def uses(kind: str, field: str) -> bool:
    """Returns whether a step of that kind uses the field."""
    return KIND_OF.get(field, kind) == kind


def needless(kind: str, given: Collection[str]) -> dict[str, str]:
    """Returns which of the given fields a step of that kind does not use: field -> what would be right."""
    return {
        field: f"Only a step of the kind {KIND_OF[field]} uses it; leave it out."
        for field in given
        if not uses(kind, field)
    }


def problems(ladder: Ladder, own: str, tiers: Collection[str]) -> dict[str, str]:
    """Returns what is wrong with a ladder of the deployment `own`: field -> what would be right."""
    found: dict[str, str] = {}
    for place, step in enumerate(ladder.steps):
        if step.kind not in KINDS:
            found[f"steps.{place}.kind"] = f"Use one of {', '.join(KINDS)}."
        unknown = [tier for tier in step.tiers if tier not in tiers]
        if unknown:
            found[f"steps.{place}.tiers"] = f"There is no tier {unknown[0]}; there are {', '.join(tiers)}."
        if step.kind == "cap_tokens" and not 1 <= step.max_tokens <= 10_000_000:
            found[f"steps.{place}.max_tokens"] = "Give a number of tokens from 1 to 10,000,000."
        if step.kind == "divert" and not step.deployment:
            found[f"steps.{place}.deployment"] = "Name the deployment that requests are sent to."
        if step.kind == "divert" and step.deployment == own:
            found[f"steps.{place}.deployment"] = "Name another deployment than this one."
    return found
