"""Icons, states and labels."""

from __future__ import annotations

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from controlplane.console import words

register = template.Library()


@register.simple_tag
def icon(name: str) -> SafeString:
    """Draws an icon of the sprite; it is decoration, the word stands beside it."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', static("icons.svg"), name)


@register.simple_tag
def state(name: str, word: str = "", css: str = "") -> SafeString:
    """A state as colour, shape and word."""
    return format_html(
        '<span class="state state-{} {}">{}{}</span>', name, css, icon(f"s-{name}"), word or words.state(name)
    )


@register.simple_tag
def simulated() -> SafeString:
    """The label that every simulated thing carries."""
    return format_html('<span class="tag simulated">{}</span>', _("simulated"))


@register.simple_tag
def verb(name: str) -> SafeString:
    """What an event did; its name, by which it is searched, is the title."""
    return format_html('<span class="tag" title="{}">{}</span>', name, words.verb(name))


@register.simple_tag
def rule(name: str) -> SafeString:
    """The rule behind a decision; its name is the title."""
    return format_html('<span class="tag" title="{}">{}</span>', name, words.rule(name))
