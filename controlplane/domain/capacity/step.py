"""One sum of a plan, shown as it is made."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

_ROUNDING = 1e-9  # a quotient this close above a whole number is that number: 0.7 x 90 is 63, not 64


@dataclass(frozen=True, slots=True)
class Step:
    """`working` is the sum in words and numbers, `value` its result in `unit`."""

    what: str
    working: str
    value: float
    unit: str


def whole(value: float) -> int:
    """The next whole number, for things that come in one piece."""
    return ceil(value - _ROUNDING * max(1.0, abs(value)))
