"""Words and sentences in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from controlplane.console import decision_words, sentences, words

register = template.Library()


@register.filter
def word(name: str) -> str:
    """The word for a state, status, engine, role, verb, level or kind of object."""
    return words.of(name)


@register.filter
def outcome(name: str) -> str:
    """What a decision went from or to."""
    return decision_words.outcome(name)


@register.filter
def told_numbers(numbers: Mapping[str, object]) -> list[tuple[str, str]]:
    """The numbers of a decision that were known, with their words and units."""
    return decision_words.numbers(numbers)


@register.filter
def limit_word(name: str) -> str:
    """What limits a step of the latency model."""
    return words.limit(name)


@register.filter
def support_word(name: str) -> str:
    """Whether a card calculates in a precision."""
    return words.support(name)


@register.filter
def said(sentence: str) -> str:
    """A sentence that came from below, in the reader's language; what stays English is marked as English."""
    told = sentences.said(sentence)
    return format_html('<span lang="en">{}</span>', told) if sentences.is_foreign(told) else told


@register.filter
def said_part(text: str) -> str:
    """A part of a sentence, in the reader's language."""
    told = sentences.said_part(text)
    return format_html('<span lang="en">{}</span>', told) if sentences.is_foreign(told) else told


@register.filter
def said_plain(sentence: str) -> str:
    """The same without markup, for attributes and for texts that are cut."""
    return sentences.said(sentence)


@register.filter
def said_each(text: str) -> str:
    """Several sentences in a row, each in the reader's language."""
    found = re.split(r"(?<=[.]) (?=[A-Z])", text)
    return format_html_join(" ", "{}", ((said(one),) for one in found)) if text else ""


@register.simple_tag
def text(message: str) -> str:
    """Translates a string that another part of the program brings, such as an engine's setting."""
    return _(message) if message else ""
