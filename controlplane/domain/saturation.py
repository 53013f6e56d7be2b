"""How near a deployment is to its limits, in one number: the signal that drives the degradation ladder. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Cause = Literal["queue_wait", "kv", "refusals", "idle", "unknown"]

KV_STEP_ON = 0.90  # part of the KV cache in use at which the ladder is climbed; engines are well used below it
REFUSED_WATERMARK = 0.05  # part of the requests that were refused for want of room
RAISE_AT = 0.8  # from here on the ladder is climbed


@dataclass(frozen=True, slots=True)
class Signal:
    """What is known of a deployment now; None = not known. `wait_ratio`: the longest wait at the head of a queue over
    that tier's limit, the highest of all tiers. `kv_usage` and `refused_ratio` are parts of 1."""

    wait_ratio: float | None = None
    kv_usage: float | None = None
    refused_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Saturation:
    """`value` 1.0 = one of the limits is reached; None = nothing is known."""

    value: float | None
    cause: Cause


def saturation(signal: Signal) -> Saturation:
    """Returns how near a deployment is to its limits, by the one that is reached most."""
    refused = None if signal.refused_ratio is None else signal.refused_ratio / REFUSED_WATERMARK
    parts: list[tuple[float | None, Cause]] = [
        (signal.wait_ratio, "queue_wait"),
        (_of_kv(signal.kv_usage), "kv"),
        (refused, "refusals"),
    ]
    known = [(part, cause) for part, cause in parts if part is not None and math.isfinite(part)]
    if not known:
        return Saturation(None, "unknown")
    value, cause = max(known, key=lambda one: one[0])
    return Saturation(max(0.0, value), cause)


def _of_kv(usage: float | None) -> float | None:
    """A full cache is 1.0; the way there from `KV_STEP_ON` on is as long as that from `RAISE_AT` on."""
    if usage is None or usage <= KV_STEP_ON:
        return None if usage is None else usage * RAISE_AT / KV_STEP_ON
    return RAISE_AT + (usage - KV_STEP_ON) * (1.0 - RAISE_AT) / (1.0 - KV_STEP_ON)
