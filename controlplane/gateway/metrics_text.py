"""Pieces of Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable


def family(name: str, kind: str, text: str) -> Iterable[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def gauge(name: str, text: str, value: float) -> Iterable[str]:
    yield from family(name, "gauge", text)
    yield f"{name} {'NaN' if value != value else f'{value:.15g}'}"  # noqa: PLR0124 - NaN is the one that differs


def labels(deployment: str) -> str:
    name = escaped(deployment)
    return f'deployment="{name}",model="{name}"'


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
