"""Tags of the console's templates, all of them under one name: `{% load headworks %}`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import template

from controlplane.console import frame, journal_links
from controlplane.console.tags import bars, live_values, marks, numbers, texts, times

register = template.Library()
for part in (bars, live_values, marks, numbers, texts, times):
    register.tags.update(part.register.tags)
    register.filters.update(part.register.filters)


@register.filter
def get(mapping: Mapping[str, Any], key: str) -> Any:
    """The value of a key that is no name; None where there is none."""
    return mapping.get(key)


@register.filter
def split(text: str) -> list[str]:
    """A text at its commas."""
    return text.split(",")


@register.simple_tag
def linked(rows: Iterable[journal_links.Row], wanted: object = True) -> list[tuple[journal_links.Row, str]]:
    """Rows of the journal, each with where its object has its page; "" when it has none, or none is wanted."""
    return journal_links.linked(rows) if wanted else [(row, "") for row in rows]


@register.simple_tag(takes_context=True)
def page_frame(context: template.Context) -> frame.Frame:
    """What the frame of every page shows."""
    return frame.of(context["request"])
