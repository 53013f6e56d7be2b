"""What a quota can limit: which unit is counted, and when it is there again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MeasureName = Literal[
    "requests_per_minute",
    "tokens_per_minute",
    "concurrent_requests",
    "tokens_per_day",
    "tokens_per_month",
    "money_per_day",
    "money_per_month",
]
# refilled: a bucket that fills at limit / 60 s; day, month: calendar windows in UTC; held: free again at the end
Kind = Literal["refilled", "day", "month", "held"]

REQUESTS, TOKENS, MONEY = 0, 1, 2  # places in a cost
MICRO = 1_000_000  # money is counted in millionths of the currency, as whole numbers


@dataclass(frozen=True, slots=True)
class Measure:
    """`unit` is one of REQUESTS, TOKENS, MONEY; `counted` says what a number of it is called."""

    name: MeasureName
    kind: Kind
    unit: int
    counted: str


MEASURES: dict[str, Measure] = {
    one.name: one
    for one in (
        Measure("requests_per_minute", "refilled", REQUESTS, "requests a minute"),
        Measure("tokens_per_minute", "refilled", TOKENS, "tokens a minute"),
        Measure("concurrent_requests", "held", REQUESTS, "requests at once"),
        Measure("tokens_per_day", "day", TOKENS, "tokens a day"),
        Measure("tokens_per_month", "month", TOKENS, "tokens a month"),
        Measure("money_per_day", "day", MONEY, "a day in money"),
        Measure("money_per_month", "month", MONEY, "a month in money"),
    )
}
MINUTE_S = 60.0


def shown(measure: Measure, amount: int) -> str:
    """Returns an amount as people read it: money in whole currency, everything else as it is counted."""
    return f"{amount / MICRO:.2f}" if measure.unit == MONEY else str(amount)
