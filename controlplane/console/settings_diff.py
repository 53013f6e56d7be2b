"""Revisions told as lines: what each sets, and what differs between two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from engine_adapters import registry
from engine_adapters.base import SettingField


@dataclass(frozen=True, slots=True)
class Line:
    """One setting. In a difference `before` or `after` is "" where it is not set."""

    name: str
    label: str
    before: str
    after: str
    unit: str = ""


def told(spec: Mapping[str, Any]) -> list[Line]:
    """Returns each value of a revision's spec with its label, the engine's settings last."""
    return between({}, spec)


def between(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Line]:
    """Returns what differs between two specs, in the order of the forms."""
    before, after = _flat(old), _flat(new)
    fields = {field.name: field for field in fields_of(str(new.get("engine") or old.get("engine") or ""))}
    order = [*(name for name in after), *(name for name in before if name not in after)]
    return [
        _line(name, fields, before.get(name), after.get(name)) for name in order if before.get(name) != after.get(name)
    ]


def fields_of(engine: str) -> list[SettingField]:
    """Returns the settings an engine knows; none for an engine that is not installed."""
    return list(registry.get(engine).fields()) if engine in registry.names() else []


def _line(name: str, fields: Mapping[str, SettingField], before: object, after: object) -> Line:
    field = fields.get(name)
    label = _(field.label) if field else _labels().get(name, name)
    return Line(name, label, _text(before), _text(after), field.unit if field else "")


def _flat(spec: Mapping[str, Any]) -> dict[str, object]:
    plain = {
        name: value for name, value in spec.items() if name not in ("settings", "engine") and value not in (None, "")
    }
    return {**plain, **spec.get("settings", {})}


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _labels() -> dict[str, str]:
    return {
        "model_path": _("Model files"),
        "served_model_name": _("Served as"),
        "tensor_parallel": _("Tensor parallel"),
        "pipeline_parallel": _("Pipeline parallel"),
        "accelerators": _("Accelerators a replica"),
        "external_url": _("Endpoint"),
    }
