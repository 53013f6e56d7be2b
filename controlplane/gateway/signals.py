"""What an engine said of itself last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSample:
    """As far as it is known: requests that wait in it, the used part of its KV cache, the requests that it has
    preempted since this gateway looks, and the tokens that it works on a second, those of prompts too."""

    waiting: float | None = None
    kv_usage: float | None = None
    preempted: float | None = None
    tokens_per_s: float | None = None


NOTHING = EngineSample()
