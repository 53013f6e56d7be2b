"""What a decision went from and to, and its numbers, in people's words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from controlplane.console import ladder_steps, traffic_words, units, words

NUMBERS: dict[str, Promise] = {
    "accelerators": _("accelerators"),
    "address": _("address"),
    "attempt": _("attempt"),
    "drain_timeout_s": _("time to drain"),
    "free": _("free"),
    "machine": _("machine"),
    "memory_bytes": _("memory of each"),
    "passed_over": _("passed over"),
    "replicas": _("replicas"),
    "saturation": _("saturation"),
    "schema": _("format"),
    "step": _("step"),
    "tiers": _("tiers"),
    "wait_s": _("pause"),
    "wanted": _("wanted"),
}
_LEVEL = re.compile(r"level (\d{1,3})")


def outcome(name: str) -> str:
    """Returns the word for what was before or is after: a state, a node, a level of the ladder."""
    level = _LEVEL.fullmatch(name)
    return gettext("level %(n)s") % {"n": level[1]} if level else words.of(name)


def numbers(given: Mapping[str, object]) -> list[tuple[str, str]]:
    """Returns each number with its word and unit, but for those that were not known or are empty."""
    return [
        (str(NUMBERS.get(name, name.replace("_", " "))), _told(name, value))
        for name, value in given.items()
        if value not in (None, "", [])
    ]


def _told(name: str, value: object) -> str:
    if name == "step":
        return ladder_steps.kind_word(str(value))
    if name == "tiers":
        return ", ".join(traffic_words.tier(one) for one in str(value).split(", "))
    if isinstance(value, list):
        return ", ".join(_told(name, one) for one in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(name, value)
    return str(value)


def _number(name: str, value: float) -> str:
    if name.endswith("_s"):
        return units.duration(value)
    if name.endswith("_bytes"):
        return f"{units.gib(value)} GiB"
    return f"{units.percent(value)} %" if name == "saturation" else units.quantity(value)
