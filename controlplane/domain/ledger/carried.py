"""What a pool carries of requests of usual lengths, where layers keep different things.

The engine's own number of tokens is no capacity then: it is its longest requests times their length (before 0.21 the
blocks of one group). With Gemma 3 some five times more than what fits of requests shorter than the window.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.footprint.hybrid import KvLayout
from controlplane.domain.sequence_kv import SequenceKv

PREFILL_MOST_SHARE = 0.25  # of a pool is kept at most for what a step computes beyond the windows
_HALF_FILLED = 0.5  # of a block, on average, is each sequence's last one


@dataclass(frozen=True, slots=True)
class Carried:
    """`capacity_tokens` is the pool in tokens as all layers would keep them, `sequence` what a sequence holds of it."""

    capacity_tokens: int
    sequence: SequenceKv


def of(layout: KvLayout, blocks: int | None) -> Carried | None:
    """Returns what a pool of so many of the layout's blocks carries; None where a token has one size, where no layer
    keeps tokens, and where the pool is not known.

    Layers with a window keep, while a prompt is computed, also the tokens of the step that are not yet out of it. A
    step has so many over all its requests, so they are taken off the pool once and not added to each sequence.
    """
    growing = [group for group in layout.groups if group.block_tokens and not group.state_blocks]
    if not layout.hybrid or not growing or blocks is None:
        return None
    windows = [group for group in growing if group.window_tokens is not None]
    blocks_a_token = sum(1.0 / group.block_tokens for group in growing)
    beyond = sum(1.0 / group.block_tokens for group in growing if group.window_tokens is None)
    in_flight = sum(layout.in_flight_tokens / group.block_tokens for group in windows)
    fixed = sum(group.state_blocks for group in layout.groups) + _HALF_FILLED * len(growing)
    fixed += _HALF_FILLED * len(windows)  # a window seldom begins with its block
    usable = blocks - layout.null_blocks - min(in_flight, PREFILL_MOST_SHARE * blocks)
    sequence = SequenceKv(
        window_tokens=max((group.window_tokens or 0 for group in windows), default=0),
        beyond_share=round(beyond / blocks_a_token, 6),
        fixed_tokens=round(fixed / blocks_a_token),
    )
    return Carried(max(0, int(usable / blocks_a_token)), sequence)
