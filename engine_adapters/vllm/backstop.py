"""The bound on what waits inside vLLM, for deployments that give none: a backstop behind the gateway's seats. Pure."""

from __future__ import annotations

from controlplane.domain.desired import EngineSpec, attention_copies
from engine_adapters.checks import given
from engine_adapters.vllm.metrics import parse_version

FIRST_VERSION = (0, 29, 0)  # the oldest that is known to have the option; an older one would not start with it
MOST_SEATS = 1024  # of vLLM's own defaults for max_num_seqs the largest
# the largest request that a gateway lets through beside what runs: a list of texts to embed, each of which counts
ROOM = 2048


def max_num_queued_reqs(spec: EngineSpec, engine_version: str) -> int | None:
    """Returns what the deployment gives, else the backstop; None = the engine is started without a bound.

    The engine counts what runs and what waits, over all copies of attention.
    """
    wished = given(spec.settings, "max_num_queued_reqs")
    if wished is not None:
        return int(wished)
    version = parse_version(engine_version)
    if version is None or version < FIRST_VERSION:
        return None
    return attention_copies(spec.settings) * int(given(spec.settings, "max_num_seqs") or MOST_SEATS) + ROOM
