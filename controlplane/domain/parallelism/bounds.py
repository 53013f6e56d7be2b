"""Numbers that came from outside: each is checked, all that are wrong are refused at once, each field by its name."""

from __future__ import annotations

from math import isfinite

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs.fields import shown

_NOTHING = shown(None)


class Bounds:
    """Collects what is wrong; `settle` raises one RefusedError that names every wrong field."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.wrong: dict[str, str] = {}
        self.given: dict[str, str] = {}

    def number(self, field: str, value: object, least: float, most: float, *, above: bool = False) -> None:
        """A finite number from `least` (or above it) to `most`; None is not one."""
        right = f"a number above {least:g} and up to {most:g}" if above else f"a number from {least:g} to {most:g}"
        if isinstance(value, bool) or not isinstance(value, int | float) or not _within(value, least, most, above):
            self.refuse(field, value, right)

    def optional(self, field: str, value: object, least: float, most: float, *, above: bool = False) -> None:
        """The same, or None."""
        if value is not None:
            self.number(field, value, least, most, above=above)

    def count(self, field: str, value: object, least: int, most: int) -> None:
        """A whole number from `least` to `most`."""
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.refuse(field, value, f"a whole number from {least} to {most}")

    def flag(self, field: str, value: object) -> None:
        """True or false."""
        if not isinstance(value, bool):
            self.refuse(field, value, "true or false")

    def refuse(self, field: str, value: object, right: str) -> None:
        """Notes that `field` can't be `value`."""
        self.wrong[field] = right
        self.given[field] = shown(value)

    def settle(self) -> None:
        """Raises RefusedError when anything was wrong."""
        if self.wrong:
            hint = "; ".join(f"{field}: {right}" for field, right in self.wrong.items())
            if len(self.wrong) == 1:
                ((field, value),) = self.given.items()
                sentence = f"{field} is missing." if value == _NOTHING else f"{field} is {value}, which can't be."
                raise RefusedError(self.code, sentence, hint=hint, fields=self.wrong)
            fields = ", ".join(self.wrong)
            raise RefusedError(self.code, f"These values can't be: {fields}.", hint=hint, fields=self.wrong)


def _within(value: float, least: float, most: float, above: bool) -> bool:
    # a whole number of thousands of digits compares well, but can't become a float
    if isinstance(value, float) and not isfinite(value):
        return False
    return (least < value if above else least <= value) and value <= most
