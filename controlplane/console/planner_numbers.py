"""Numbers of the planner's form: their fields, and what was filled in."""

from __future__ import annotations

from collections.abc import Callable

from django.utils.translation import gettext as _

from controlplane.console.dialogs import Field, Values
from controlplane.console.units import quantity
from controlplane.deployments.planner.fields import BY_NAME, Number


def read(text: str, number: Number) -> float | int | None:
    if not text.isascii() or len(text) > 40:
        return None
    try:
        value: float | int = int(text) if number.whole else float(text)
    except ValueError:
        return None
    low = number.least < value if number.above else number.least <= value
    return value if low and value <= number.most else None


def right(number: Number) -> str:
    values = {"low": quantity(number.least), "high": quantity(number.most)}
    if number.whole:
        return _("Give a whole number from %(low)s to %(high)s.") % values
    if number.above:
        return _("Give a number above %(low)s, up to %(high)s.") % values
    return _("Give a number from %(low)s to %(high)s.") % values


Make = Callable[..., Field]


def maker(values: Values) -> Make:
    """Returns what makes the field of a number."""

    def make(name: str, label: str, unit: str = "", help_text: str = "", *, step: str = "", hint: str = "") -> Field:
        number = BY_NAME[name]
        usual = hint if number.usual is None else f"{number.usual:g}"
        return Field(
            name,
            label,
            "number",
            values.get(name, ""),
            help_text,
            minimum=None if number.above else number.least,
            maximum=number.most,
            step=step or ("1" if number.whole else "any"),
            unit=unit,
            placeholder=usual,
        )

    return make
