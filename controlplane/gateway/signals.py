"""What an engine said of itself last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSample:
    """As far as it is known: requests that wait in it, the used part of its KV cache, preemptions since before."""

    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float = 0.0


NOTHING = EngineSample()
