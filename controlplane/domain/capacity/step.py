"""One sum of a plan, shown as it is made."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

_ROUNDING = 1e-9  # a quotient this close above a whole number is that number: 0.7 x 90 is 63, not 64


StepCode = Literal[
    "replica", "replicas", "at_peak", "on_average", "after_node_loss", "spare", "hot", "cold", "cards", "cost",
    "hot_cost", "in_flight",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """`code` names the sum, `what` in words; `working` is how it goes, as a sentence, `value` its result in `unit`."""

    code: StepCode
    what: str
    working: str
    value: float
    unit: str


def whole(value: float) -> int:
    """The next whole number, for things that come in one piece."""
    return ceil(value - _ROUNDING * max(1.0, abs(value)))
