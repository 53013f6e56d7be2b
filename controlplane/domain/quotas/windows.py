"""Calendar windows in UTC: seconds since the epoch to the day or month that they are in, and when it ends."""

from __future__ import annotations

from controlplane.domain.quotas.measures import Kind

DAY_S = 86_400
FOREVER = float("inf")


def window_of(kind: Kind, now: float) -> tuple[int, float]:
    """Returns (number of the window, when it ends): days since 1970-01-01, or months since year 0. What has no
    calendar window is in window 0 for ever."""
    days = int(now // DAY_S)
    if kind == "day":
        return days, float((days + 1) * DAY_S)
    if kind == "month":
        year, month = _year_and_month(days)
        number = year * 12 + month - 1
        return number, float(_first_day(number + 1) * DAY_S)
    return 0, FOREVER


def start_of(kind: Kind, number: int) -> float:
    """Returns when a calendar window begins, in UTC seconds; what has none begins with the epoch."""
    if kind == "day":
        return float(number * DAY_S)
    return float(_first_day(number) * DAY_S) if kind == "month" else 0.0


def _year_and_month(days: int) -> tuple[int, int]:
    """The civil calendar from a day number, in whole numbers, so that Valkey's script can do the very same.

    A year begins in March here, so that the leap day is its last; 719,468 days lie between 0000-03-01 and 1970-01-01,
    and an era is 400 years of 146,097 days (H. Hinnant, "chrono-compatible low-level date algorithms").
    """
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * of_year + 2) // 153
    month = from_march + 3 if from_march < 10 else from_march - 9
    return year_of_era + era * 400 + (1 if month <= 2 else 0), month


def _first_day(number: int) -> int:
    """The day number on which a month (months since year 0) begins."""
    year, month = number // 12, number % 12 + 1
    shifted = year - (1 if month <= 2 else 0)
    era = shifted // 400
    year_of_era = shifted - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - 719_468
