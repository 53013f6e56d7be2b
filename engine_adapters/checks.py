"""Validation that every engine's settings share: kind, range and choice of each field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from controlplane.domain.desired import SettingValue
from engine_adapters.base import SettingField, SettingProblem


def check_fields(fields: Sequence[SettingField], settings: Mapping[str, SettingValue]) -> list[SettingProblem]:
    """Returns one problem for each setting that is unknown or has a value its field does not take.

    None and the empty text mean "not given" and always pass.
    """
    known = {field.name: field for field in fields}
    problems: list[SettingProblem] = []
    for name, value in settings.items():
        if name not in known:
            problems.append(SettingProblem(name, f"There is no setting {name!r} here."))
            continue
        if value is None or value == "":
            continue
        message = _check_value(known[name], value)
        if message:
            problems.append(SettingProblem(name, message))
    return problems


def given(settings: Mapping[str, SettingValue], name: str) -> SettingValue:
    """Returns the value of a setting, None where it is absent or empty."""
    value = settings.get(name)
    return None if value == "" else value


def _check_value(field: SettingField, value: SettingValue) -> str:
    if field.kind == "bool":
        return "" if isinstance(value, bool) else "Give true or false."
    if field.kind == "choice":
        return "" if value in field.choices else f"Choose one of: {', '.join(field.choices)}."
    if field.kind == "text":
        return _check_text(value)
    return _check_number(field, value)


def _check_text(value: SettingValue) -> str:
    if not isinstance(value, str):
        return "Give a text."
    if any(ord(character) < 32 for character in value):
        return "Give a text of one line, without control characters."
    return ""


def _check_number(field: SettingField, value: SettingValue) -> str:
    # bool is an int in Python, but true is no number of seats
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "Give a whole number." if field.kind == "int" else "Give a number."
    if field.kind == "int" and not isinstance(value, int):
        return "Give a whole number."
    if not math.isfinite(value):
        return "Give a finite number."
    unit = f" {field.unit}" if field.unit else ""
    if field.minimum is not None and value < field.minimum:
        return f"The smallest value is {field.minimum:g}{unit}."
    if field.maximum is not None and value > field.maximum:
        return f"The largest value is {field.maximum:g}{unit}."
    return ""
