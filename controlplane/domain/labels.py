"""Labels of nodes: names with values, by which deployments choose nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping

MOST_LABELS = 32
_NAME = re.compile(r"[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def problem(labels: Mapping[str, object]) -> str:
    """Returns what is wrong with labels and what would be right; the empty text when nothing is."""
    if len(labels) > MOST_LABELS:
        return f"Give at most {MOST_LABELS} labels."
    for name, value in labels.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"{str(name)[:63]!r} is no name of a label: use lower-case letters, digits and . _ / -, at most 63."
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            return f"The value of label {name} has to be letters, digits and . _ -, at most 63."
    return ""


def carry(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Returns whether a node with these labels has all that are wanted, each with its value."""
    return all(labels.get(name) == value for name, value in wanted.items())


def told(labels: Mapping[str, str]) -> str:
    """Returns labels as a person reads them."""
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
