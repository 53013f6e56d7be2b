"""Values that the websocket keeps fresh, and lines of the last minutes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.console import units
from controlplane.console.tags.numbers import plain

register = template.Library()


@register.simple_tag
def live(
    subject: str, field: str, form: str = "rate", samples: Mapping[str, Mapping[str, Any]] | None = None, unit: str = ""
) -> SafeString:
    """A value that the websocket keeps fresh; `form` is a name of `units.FORMATS`."""
    value = (samples or {}).get(subject, {}).get(field)
    return format_html(
        '<span data-live="{}" data-field="{}" data-form="{}">{}</span>{}',
        subject,
        field,
        form,
        units.FORMATS[form](value),
        format_html(' <span class="unit">{}</span>', unit) if unit else "",
    )


@register.simple_tag
def live_meter(subject: str, field: str, samples: Mapping[str, Mapping[str, Any]] | None = None) -> SafeString:
    """A share as a small bar and a percentage, kept fresh by the websocket."""
    value = (samples or {}).get(subject, {}).get(field)
    return format_html(
        '<span class="meter"><svg class="bar" aria-hidden="true"><rect class="part-share" data-live="{}" '
        'data-field="{}" data-form="width" width="{}%" height="100%"/></svg>'
        '<span class="num">{}<span class="unit card-only"> %</span></span></span>',
        subject,
        field,
        f"{max(0.0, min(1.0, value or 0.0)) * 100:.1f}",
        format_html(
            '<span data-live="{}" data-field="{}" data-form="percent">{}</span>', subject, field, units.percent(value)
        ),
    )


@register.simple_tag
def spark(subject: str, field: str, begins: datetime, css: str = "") -> SafeString:
    """A line of the last five minutes without axes, drawn by the browser; what was before `begins` is left out."""
    return format_html(
        '<svg class="spark {}" data-spark="{}" data-field="{}" data-begins="{}" viewBox="0 0 100 24" '
        'preserveAspectRatio="none" aria-hidden="true"></svg>',
        css,
        subject,
        field,
        plain(begins.timestamp()),
    )
