"""Numbers with their units, as a person or an attribute takes them."""

from __future__ import annotations

import json
from typing import Any

from django import template

from controlplane.console import units

register = template.Library()


def known(value: Any) -> float | None:
    """Returns None for what a template could not find (an empty text), such as a fact that a card does not tell."""
    return None if value == "" else value


@register.filter
def gib(value: Any) -> str:
    """Bytes as GiB, without the unit."""
    return units.gib(known(value))


@register.filter
def quantity(value: Any) -> str:
    """A whole number exactly, any other with three figures."""
    return units.quantity(known(value))


@register.filter
def significant(value: Any) -> str:
    """A rate with the figures that count."""
    return units.rate(known(value))


@register.filter
def percent(value: Any) -> str:
    """A share from 0 to 1 in percent, without the sign."""
    return units.percent(known(value))


@register.filter
def latency(value: Any) -> str:
    """Seconds as a time with its unit."""
    return units.latency(known(value))


@register.filter
def milliseconds(value: Any) -> str:
    """Milliseconds as a time with its unit: 87 ms, 1.4 s."""
    number = known(value)
    return units.latency(None if number is None else number / 1000)


@register.filter
def in_ms(value: Any) -> str:
    """Seconds in ms, without the unit."""
    return units.milliseconds(known(value))


@register.filter
def quantity_rounded(value: Any) -> str:
    """A large figure with three digits that count: 12,300."""
    number = known(value)
    return units.MISSING if number is None else units.significant(number)


@register.filter
def signed_percent(value: float) -> str:
    """A difference as a share, in percent with its sign: +1.2, −0.4."""
    return f"{value * 100:+.1f}".replace("-", "−")


@register.filter
def parameters(value: int | None) -> str:
    """A model's size as people say it: 135 M, 7.24 B."""
    if value is None:
        return units.MISSING
    for size, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if value >= size:
            return f"{units.significant(value / size)} {letter}"
    return units.count(value)


@register.filter
def plain(value: float) -> str:
    """A number for an HTML attribute: no separators, no trailing zeros."""
    return f"{value:.12g}" if abs(value) < 1e15 else str(int(value))


@register.filter
def as_json(value: object) -> str:
    """A value as JSON to be read, with sorted names."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
