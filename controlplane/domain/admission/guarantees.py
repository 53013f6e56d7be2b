"""Whether a deployment has what a tenant is to be guaranteed of it."""

from __future__ import annotations

from typing import Literal

_ROUNDING = 1e-9

Oversold = Literal["", "whole", "seat"]


def oversold(guaranteed: float, *, before: float, others: float, seats: int | None) -> Oversold:
    """Returns why a guarantee (a part of 1) is more than there is, "" = it is not.

    "whole": with what `others` have it is more than all of it. "seat": of the `seats` that its replicas have now it is
    less than one, and whoever is below a guarantee gets a whole one, so many such can't all be kept; None = not known.
    Who guarantees no more than `before` makes nothing worse, and is never asked for the sum.
    """
    if guaranteed <= 0:
        return ""
    if guaranteed > before + _ROUNDING and others + guaranteed > 1.0 + _ROUNDING:
        return "whole"
    if seats and abs(guaranteed - before) > _ROUNDING and guaranteed * seats < 1.0 - _ROUNDING:
        return "seat"
    return ""
