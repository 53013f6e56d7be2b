"""Reading the fields of a case: a value that can't be is refused with the field's name and what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import NoReturn

from controlplane.domain.errors import RefusedError

Case = Mapping[str, object]
CODE = "performance_case"


def refuse(field: str, value: object, right: str) -> NoReturn:
    """Raises the refusal that names the field; what was given is shown in short."""
    shown = repr(value) if isinstance(value, (str, int, float, bool)) or value is None else type(value).__name__
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise RefusedError(CODE, f"{field} is {shown}; it should be {right}.", fields={field: right})


def number(case: Case, field: str, least: float, most: float) -> float | None:
    """A number from `least` to `most`; None where it is absent or null."""
    value = case.get(field)
    if value is None:
        return None
    right = f"a number from {least:g} to {most:g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        refuse(field, value, right)
    if not least <= value <= most or not isfinite(value):
        refuse(field, value, right)
    return float(value)


def count(case: Case, field: str, most: int) -> int | None:
    """A whole number from 1 to `most`."""
    value = number(case, field, 1, most)
    if value is None:
        return None
    if value != int(value):
        refuse(field, value, "a whole number")
    return int(value)


def degree(case: Case, field: str, most: int) -> int:
    """A degree of parallelism: 1 where it is absent, null or 0 (as some tables write "off")."""
    value = case.get(field)
    return 1 if value is None or (value == 0 and not isinstance(value, bool)) else (count(case, field, most) or 1)


def text(case: Case, field: str) -> str | None:
    """A short text; None where it is absent, null or empty."""
    value = case.get(field)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        refuse(field, value, "a text")
    if len(value) > 300:
        refuse(field, value, "a text of at most 300 characters")
    return value.strip() or None


def flag(case: Case, field: str) -> bool:
    """A truth value; absent and null are false. A method's name ("eagle3") is true."""
    value = case.get(field)
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, str):
        return value.strip().lower() not in {"", "no", "none", "false", "off"}
    refuse(field, value, "true or false")
