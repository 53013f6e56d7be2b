"""What measured starts teach about predictions: one correction per (engine version, accelerator, model family).

A correction is a median, so that one odd start moves little, and is drawn towards none while there are few starts.
It is applied to later predictions and shown as such, with the number of starts it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

_DOUBT = 1.0  # as if one more start had agreed with the uncorrected prediction
_LARGEST_WEIGHTS_RATIO = 1.25


@dataclass(frozen=True, slots=True)
class CorrectionKey:
    """What starts have in common. Versions count by their first two numbers."""

    engine_version: str
    accelerator: str
    family: str


@dataclass(frozen=True, slots=True)
class Correction:
    """`weights_ratio` multiplies the weights; `other_bytes` is added to what is neither weights nor cache."""

    weights_ratio: float = 1.0
    other_bytes: int = 0
    observations: int = 0

    @property
    def sentence(self) -> str:
        """How it is shown; empty where nothing was corrected."""
        if not self.observations:
            return ""
        starts = "1 measured start" if self.observations == 1 else f"{self.observations} measured starts"
        return f"Corrected by {starts}: weights x {self.weights_ratio:.3f}, other {self.other_bytes / 2**30:+.2f} GiB."


@dataclass(frozen=True, slots=True)
class Comparison:
    """One start: the sums without any correction beside what the engine measured. Bytes of one accelerator."""

    predicted_weights_bytes: int
    measured_weights_bytes: int | None
    predicted_kv_bytes: int | None
    measured_kv_bytes: int | None


NO_CORRECTION = Correction()


def learn(comparisons: Iterable[Comparison]) -> Correction:
    """The correction that starts of one key teach; NO_CORRECTION from none."""
    starts = list(comparisons)
    ratios = [
        start.measured_weights_bytes / start.predicted_weights_bytes
        for start in starts
        if start.measured_weights_bytes and start.predicted_weights_bytes > 0
    ]
    others = [_other_bytes(start) for start in starts]
    known = [other for other in others if other is not None]
    if not ratios and not known:
        return NO_CORRECTION
    ratio = 1 + (median(ratios) - 1) * _trust(len(ratios)) if ratios else 1.0
    other = round(median(known) * _trust(len(known))) if known else 0
    bounded = min(max(ratio, 1 / _LARGEST_WEIGHTS_RATIO), _LARGEST_WEIGHTS_RATIO)
    return Correction(bounded, other, max(len(ratios), len(known)))


def _other_bytes(start: Comparison) -> int | None:
    """What was missing in the sum beside the weights: the cache came out smaller by so much."""
    if start.predicted_kv_bytes is None or start.measured_kv_bytes is None:
        return None
    heavier = 0
    if start.measured_weights_bytes:
        heavier = start.measured_weights_bytes - start.predicted_weights_bytes
    return start.predicted_kv_bytes - start.measured_kv_bytes - heavier


def _trust(observations: int) -> float:
    return observations / (observations + _DOUBT)
