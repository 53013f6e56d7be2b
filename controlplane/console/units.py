"""How numbers and times are written. `static/js/format.js` does the same in the browser; a test compares both."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

from django.utils.translation import gettext as _

MISSING = "–"
GIB = 1024**3


def significant(value: float) -> str:
    """Returns three significant figures with thousands separated: 0.123, 1.23, 12.3, 123, 1,230."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    digits = 2 - math.floor(math.log10(abs(rounded)))  # 9.996 has become 10.0
    return f"{rounded:,.{max(0, min(digits, 6))}f}"


def quantity(value: float | None) -> str:
    """Returns a whole number exactly and any other with three significant figures."""
    if value is None:
        return MISSING
    return f"{round(value):,}" if float(value).is_integer() else significant(value)


def count(value: float | None) -> str:
    """Returns a number of things."""
    return MISSING if value is None else f"{math.floor(value + 0.5):,}"


def rate(value: float | None) -> str:
    """Returns something a second, without its unit."""
    return MISSING if value is None else significant(value)


def percent(value: float | None) -> str:
    """Returns a share (0..1) in percent, without the sign."""
    return MISSING if value is None else f"{math.floor(value * 100 + 0.5)}"


def gib(value: float | None) -> str:
    """Returns bytes in GiB, without its unit."""
    return MISSING if value is None else significant(value / GIB)


def milliseconds(value: float | None) -> str:
    """Returns seconds in ms, without its unit: for columns, whose unit never changes."""
    return MISSING if value is None else significant(value * 1000)


def latency(value: float | None) -> str:
    """Returns seconds as ms below one second and as s above, with the unit."""
    if value is None:
        return MISSING
    return f"{significant(value * 1000)} ms" if value < 1 else f"{significant(value)} s"


def duration(seconds: float | None) -> str:
    """Returns how long something took or lasts, in at most two units: 12 s, 3 min 20 s, 5 h 2 min, 3 d 4 h."""
    if seconds is None:
        return MISSING
    whole = max(0, int(seconds))
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    names = {"d": _("d"), "h": _("h"), "min": _("min"), "s": _("s")}
    for index, (unit, size) in enumerate(units):
        if whole >= size or unit == "s":
            text = f"{whole // size} {names[unit]}"
            if index + 1 < len(units):
                smaller, small_size = units[index + 1]
                rest = whole % size // small_size
                text += f" {rest} {names[smaller]}" if rest else ""
            return text
    raise AssertionError("the last unit always fits")


def ago(at: datetime, now: datetime) -> str:
    """Returns a moment relative to now in one unit: 12 s ago, in 5 min."""
    seconds = (now - at).total_seconds()
    size = abs(seconds)
    if size < 1:
        return _("now")
    if size < 60:
        text = f"{int(size)} {_('s')}"
    elif size < 3600:
        text = f"{int(size // 60)} {_('min')}"
    elif size < 86400:
        text = f"{int(size // 3600)} {_('h')}"
    else:
        text = f"{int(size // 86400)} {_('d')}"
    return _("%(time)s ago") % {"time": text} if seconds > 0 else _("in %(time)s") % {"time": text}


def absolute(at: datetime) -> str:
    """Returns a moment in UTC; the browser turns it into its own zone when that is wished."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# how a live value is written, by the name that templates and format.js use
FORMATS: dict[str, Callable[[float | None], str]] = {
    "count": count,
    "rate": rate,
    "percent": percent,
    "gib": gib,
    "ms": milliseconds,
    "latency": latency,
}
