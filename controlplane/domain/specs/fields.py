"""Reading numbers out of a mapping that came from outside: every value is checked, every refusal names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import sizes

LARGEST_SIZE = 10_000_000  # of numbers in lists
LARGEST_LENGTH = 1_000_000_000  # of a context, in tokens
LARGEST_LAYERS = 10_000
LARGEST_TOTAL = 10**15  # parameters; the largest known models have a few 10**12
_SHOWN_CHARACTERS = 60


def refuse(code: str, field: str, value: object, right: str) -> RefusedError:
    """The error for one wrong field; raised by the caller."""
    return RefusedError(
        code, f"{field} is {shown(value)}, which can't be.", hint=f"{field}: {right}", fields={field: right}
    )


def shown(value: object) -> str:
    """A value for a sentence: short, whatever it is, however deep."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return f"{value!r}"
    if isinstance(value, int):
        return str(value) if -(10**20) < value < 10**20 else "a number of more than 20 digits"
    if isinstance(value, str):
        cut = value[:_SHOWN_CHARACTERS]
        return f'"{cut}"' if len(value) <= _SHOWN_CHARACTERS else f'"{cut}…"'
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def whole_number(value: object) -> int | None:
    """`value` as an integer, where it is one (4096 or 4096.0), else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return None


class Fields:
    """A mapping and where it stands in the file, for instance `text_config.`."""

    def __init__(self, values: Mapping[str, object], *, where: str = "", code: str = "model_config") -> None:
        self.values = values
        self.where = where
        self.code = code

    def has(self, *names: str) -> bool:
        """Whether one of these names is there and not null."""
        return any(self.values.get(name) is not None for name in names)

    def raw(self, *names: str) -> tuple[str, object]:
        """The first of `names` that is there and not null, with its value; the first name and None otherwise."""
        for name in names:
            if self.values.get(name) is not None:
                return name, self.values[name]
        return names[0], None

    def refuse(self, name: str, value: object, right: str) -> RefusedError:
        """A refusal of a value, naming its field with where it stands, and what would be right; to be raised."""
        return refuse(self.code, self.where + name, value, right)

    def number(self, *names: str, least: int = 1, most: int | None = None) -> int | None:
        """A whole number between `least` and `most`, or None when none of the names is there. Without `most` it is what
        a field of that name can be at all."""
        name, value = self.raw(*names)
        if value is None:
            return None
        most = sizes.most(name) if most is None else most
        number = whole_number(value)
        if number is None or not least <= number <= most:
            raise self.refuse(name, value, f"a whole number from {least} to {most}")
        return number

    def need(self, *names: str, least: int = 1, most: int | None = None) -> int:
        """As `number`, and raises RefusedError where none of the names is there."""
        number = self.number(*names, least=least, most=most)
        if number is None:
            most = sizes.most(names[0]) if most is None else most
            raise self.missing(names[0], f"a whole number from {least} to {most}")
        return number

    def missing(self, name: str, right: str) -> RefusedError:
        """A refusal of a field that is not there, and what would be right; to be raised."""
        name = self.where + name
        return RefusedError(
            self.code, f"{name} is missing.", hint=f"{name}: {right}", fields={name: f"missing; {right}"}
        )

    def ratio(self, *names: str, most: float = 1000.0) -> float | None:
        """A finite number above 0 and up to `most`, or None."""
        name, value = self.raw(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self.refuse(name, value, f"a number above 0, up to {most:g}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false, `default` where it is not there. Raises RefusedError for anything else."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, value, "true or false")
        return value

    def text(self, name: str, default: str = "") -> str:
        """A text, cut at 200 characters; `default` where it is not there. Raises RefusedError for anything else."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.refuse(name, value, "a text")
        return value[:200]

    def numbers(self, name: str, *, most: int = LARGEST_SIZE, most_items: int = LARGEST_LAYERS) -> list[int] | None:
        """A list of whole numbers from 0, or None."""
        value = self.values.get(name)
        if value is None:
            return None
        right = f"a list of up to {most_items} whole numbers from 0 to {most}"
        if not isinstance(value, list | tuple) or len(value) > most_items:
            raise self.refuse(name, value, right)
        numbers = [whole_number(item) for item in value]
        found = [number for number in numbers if number is not None and 0 <= number <= most]
        if len(found) != len(numbers):
            raise self.refuse(name, value, right)
        return found

    def texts(self, name: str, *, most_items: int = LARGEST_LAYERS) -> list[str] | None:
        """A list of texts, or None where it is not there. Raises RefusedError for anything else, or more than
        `most_items`."""
        value = self.values.get(name)
        if value is None:
            return None
        if (
            not isinstance(value, list | tuple)
            or len(value) > most_items
            or not all(isinstance(item, str) for item in value)
        ):
            raise self.refuse(name, value, f"a list of up to {most_items} texts")
        return list(value)

    def part(self, name: str) -> Fields | None:
        """An object inside this one, or None where it is missing."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.refuse(name, value, "an object")
        return Fields(value, where=f"{self.where}{name}.", code=self.code)
