"""How amounts of traffic are written: bytes of queues in MiB, waits in seconds, money with two decimals."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.console import units
from controlplane.domain.quotas.measures import MEASURES, MICRO, MONEY

MIB = 2**20


def mib(value: float | None) -> str:
    """Returns bytes in MiB, without the unit."""
    return units.MISSING if value is None else units.significant(value / MIB)


def seconds(value: float | None) -> str:
    """Returns seconds without the unit: one decimal below 100, none above."""
    if value is None:
        return units.MISSING
    return f"{value:.1f}".removesuffix(".0") if value < 100 else f"{round(value):,}"


def amount(value: float | None, measure: str) -> str:
    """Returns so much of what a quota limits; money comes in millionths."""
    if value is None:
        return units.MISSING
    known = MEASURES.get(measure)
    return money(value) if known is not None and known.unit == MONEY else units.count(value)


def money(value: float | None) -> str:
    """Returns millionths as the currency."""
    return units.MISSING if value is None else f"{value / MICRO:,.2f}"


FORMS: dict[str, Callable[[float | None], str]] = {
    "count": units.count,
    "mib": mib,
    "seconds": seconds,
    "money": money,
    "percent": units.percent,
}
