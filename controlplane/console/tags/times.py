"""Moments and durations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.console import units
from controlplane.console.tags.numbers import known

register = template.Library()


@register.simple_tag
def when(at: datetime | None) -> SafeString:
    """A moment relative to now; the browser keeps it true and puts the absolute time in the title."""
    if at is None:
        return format_html("{}", units.MISSING)
    return format_html(
        '<time datetime="{}" title="{}" data-when>{}</time>',
        at.isoformat(),
        units.absolute(at),
        units.ago(at, timezone.now()),
    )


@register.simple_tag
def moment(at: datetime | None) -> SafeString:
    """A moment as an absolute time, in UTC or the browser's zone as the reader chose."""
    if at is None:
        return format_html("{}", units.MISSING)
    return format_html('<time datetime="{}" data-moment>{}</time>', at.isoformat(), units.absolute(at))


@register.simple_tag
def elapsed(since: datetime | None, until: datetime | None = None) -> SafeString:
    """How long something has lasted; counts on in the browser while it has no end."""
    if since is None:
        return format_html("{}", units.MISSING)
    text = units.duration(((until or timezone.now()) - since).total_seconds())
    if until is not None:
        return format_html("{}", text)
    return format_html('<span data-since="{}">{}</span>', since.isoformat(), text)


@register.filter
def duration(value: Any) -> str:
    """Seconds as a person says them."""
    return units.duration(known(value))
