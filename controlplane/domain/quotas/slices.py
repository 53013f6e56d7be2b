"""How large a slice of a limit one gateway takes at a time, and the words in which it asks for it.

A slice follows the pace of use (so many seconds of it), is never more than half of an equal part of what is left, and
so shrinks as the limit is neared: gateways then meet more often and nobody is refused while another holds a store.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controlplane.domain.quotas.measures import MINUTE_S, Kind

HOLD_S = 5.0  # a slice lasts so long at the pace of now
FIRST_PART = 20  # before a pace is known: this part of a gateway's equal part
LEASE_S = 4.0  # a gateway that was not heard of for so long is dead and what it held is back
HEARTBEAT_S = 1.0
SHORT_S = 2.0  # for so long after somebody was refused the others give back what they don't need


@dataclass(frozen=True, slots=True)
class Ask:
    """One gateway's word on one limit. Nothing in it is a difference, so one that is sent twice counts once.

    `spent_total` grows for as long as the gateway lives; `spent_acked` is the part that an answer has confirmed.
    `held` is what it holds, of which `spare` is not reserved. `needed` is what requests wait for at this moment;
    `wanted` what it would like. `window` is the one that `held` belongs to (-1 = it has none).
    """

    meter: str
    kind: Kind
    limit: int
    spent_total: int
    spent_acked: int
    held: int
    spare: int
    wanted: int
    needed: int
    window: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of an ask. `left` is what nobody holds; below zero more was spent than the limit."""

    meter: str
    granted: int
    taken_back: int
    left: int
    gateways: int
    short: bool  # somebody was refused a moment ago
    window: int
    ends_at: float


def largest(left: int, gateways: int) -> int:
    """Returns the most that one gateway takes for later: half of an equal part, at least 1."""
    return max(1, left // (2 * max(1, gateways)))


def first(limit: int, gateways: int) -> int:
    """Returns the slice while no pace is known."""
    return max(1, limit // (FIRST_PART * max(1, gateways)))


def target(limit: int, gateways: int, pace_per_s: float) -> int:
    """Returns how much a gateway likes to hold at this pace of use."""
    least = max(1, first(limit, gateways) // 10)  # a burst after a pause does not ask for each request
    return min(largest(limit, gateways), max(least, math.ceil(pace_per_s * HOLD_S)))


def granted(left: int, gateways: int, wanted: int, needed: int) -> int:
    """Returns what of it is given: what requests wait for, as far as there is any, and else at most a slice."""
    if left <= 0:
        return 0
    return min(left, max(min(wanted, largest(left, gateways)), needed))


def refill_per_s(limit: int) -> float:
    """Returns how fast a limit a minute comes back."""
    return limit / MINUTE_S
