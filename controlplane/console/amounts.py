"""Numbers in forms of traffic: in the unit that people write, checked at their field, stored in the one that counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from controlplane.console.dialogs import Field, Values
from controlplane.domain.errors import RefusedError

PERCENT = 0.01


@dataclass(frozen=True, slots=True)
class Amount:
    """One number. What is stored is what is written x `scale`; `low` and `high` are of what is written.

    `above`: it has to be more than `low`. An `optional` one may be left empty.
    """

    name: str
    label: str
    unit: str = ""
    help: str = ""
    low: float = 0
    high: float = 1_000_000
    scale: float = 1
    whole: bool = False
    above: bool = False
    optional: bool = False

    def written(self, stored: float | None) -> str:
        """Returns what stands in the field for a stored number."""
        return "" if stored is None else f"{stored / self.scale:.12g}"

    def stored(self, written: str) -> float | int | None:
        """Returns the number to store; raises ValueError with what would be right."""
        text = written.strip()
        if not text and self.optional:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not text.isascii() or not math.isfinite(value) or not self._fits(value):
            raise ValueError(self._right())
        exact = value * self.scale
        return round(exact) if self.whole else float(f"{exact:.12g}")

    def _fits(self, value: float) -> bool:
        if self.whole and self.scale == 1 and not value.is_integer():
            return False
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def _right(self) -> str:
        numbers = {
            "low": f"{self.low:,.12g}",
            "high": f"{self.high:,.12g}",
            "unit": f" {self.unit}" if self.unit else "",
        }
        if self.above:
            return _("Give a number above %(low)s, at most %(high)s%(unit)s.") % numbers
        if self.whole and self.scale == 1:
            return _("Give a whole number from %(low)s to %(high)s%(unit)s.") % numbers
        return _("Give a number from %(low)s to %(high)s%(unit)s.") % numbers


def fields(amounts: Sequence[Amount], values: Values, stored: Mapping[str, float | None]) -> list[Field]:
    """Returns the form's fields: with what was sent, else with what is stored."""
    return [
        Field(
            one.name, one.label, "number", values.get(one.name, one.written(stored.get(one.name))), one.help,
            minimum=one.low, maximum=one.high, step="1" if one.whole and one.scale == 1 else "any", unit=one.unit,
            required=not one.optional,
        )
        for one in amounts
    ]  # fmt: skip


def read(amounts: Sequence[Amount], values: Values) -> dict[str, Any]:
    """Returns name -> number to store (None where one was left empty); refuses all that are wrong at once."""
    found: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for one in amounts:
        try:
            found[one.name] = one.stored(values.get(one.name, ""))
        except ValueError as error:
            wrong[one.name] = str(error)
    if wrong:
        raise RefusedError("invalid", next(iter(wrong.values())), fields=wrong)
    return found


def told(amounts: Sequence[Amount], values: Values, stored: Mapping[str, float | None]) -> dict[str, Any]:
    """Returns what REST would be sent, for showing: what can't be read stays as it is written."""
    found: dict[str, Any] = {}
    for one in amounts:
        written = values.get(one.name)
        if written is None:
            found[one.name] = stored.get(one.name)
            continue
        try:
            found[one.name] = one.stored(written)
        except ValueError:
            found[one.name] = written
    return found
