"""What an engine said of itself last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSample:
    """As far as it is known: requests that wait in it, the used part of its KV cache, and the requests that it has
    preempted since this gateway looks."""

    waiting: float | None = None
    kv_usage: float | None = None
    preempted: float | None = None


NOTHING = EngineSample()
