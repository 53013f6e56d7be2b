"""Memory of a card as a stack."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from controlplane.console import memory, memory_parts, units

register = template.Library()


@register.simple_tag
def memory_bar(parts: list[memory.Part], css: str = "") -> SafeString:
    """A card's memory as a stack; each part has its name and GiB as title, the whole is told in words."""
    told = ", ".join(f"{part.label} {units.gib(part.size_bytes)} GiB" for part in parts)
    pieces = format_html_join(
        "",
        '<rect class="part-{}" x="{}%" width="{}%" height="100%"><title>{}</title></rect>',
        (
            (
                part.kind,
                f"{part.start * 100:.2f}",
                f"{part.share * 100:.2f}",
                f"{part.label}: {units.gib(part.size_bytes)} GiB",
            )
            for part in parts
        ),
    )
    return format_html('<svg class="bar {}" role="img" aria-label="{}">{}</svg>', css, told or _("no data"), pieces)


@register.simple_tag
def stack_bar(stack: memory_parts.Stack, css: str = "tall") -> SafeString:
    """A card's ledger as a stack, with the end of the card and the budget that the engine asks for."""
    marks = format_html_join(
        "",
        '<line class="{}" x1="{}%" x2="{}%" y1="0" y2="100%"><title>{}</title></line>',
        (
            (kind, f"{at * 100:.2f}", f"{at * 100:.2f}", title)
            for kind, at, title in (
                ("bar-budget", stack.budget, _("What the engine asks for")),
                ("bar-end", stack.end if stack.end < 1 else None, _("End of the card")),
            )
            if at is not None and at < 1
        ),
    )
    return format_html('<div class="bar-frame">{}<svg class="bar-marks" aria-hidden="true">{}</svg></div>',
                       memory_bar(list(stack.parts), css), marks)  # fmt: skip


@register.filter
def used(stack: list[memory.Part]) -> int:
    """Bytes in use of a stack."""
    return memory.used_bytes(stack)


@register.filter
def total(stack: list[memory.Part]) -> int:
    """Bytes of a whole stack."""
    return memory.total_bytes(stack)
