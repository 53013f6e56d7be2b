"""Tags of the console's templates: icons, states, numbers, times, live values, bars."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from controlplane.console import frame, journal_links, memory, memory_parts, sentences, units, words

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


def _known(value: Any) -> float | None:
    """Returns None for what a template could not find (an empty text), such as a fact that a card does not tell."""
    return None if value == "" else value


@register.filter
def gib(value: Any) -> str:
    return units.gib(_known(value))


@register.filter
def quantity(value: Any) -> str:
    return units.quantity(_known(value))


@register.filter
def significant(value: Any) -> str:
    return units.rate(_known(value))


@register.filter
def percent(value: Any) -> str:
    return units.percent(_known(value))


@register.filter
def latency(value: Any) -> str:
    return units.latency(_known(value))


@register.filter
def milliseconds(value: Any) -> str:
    """Milliseconds as a time with its unit: 87 ms, 1.4 s."""
    known = _known(value)
    return units.latency(None if known is None else known / 1000)


@register.filter
def in_ms(value: Any) -> str:
    """Seconds in ms, without the unit."""
    return units.milliseconds(_known(value))


@register.filter
def quantity_rounded(value: Any) -> str:
    """A large figure with three digits that count: 12,300."""
    known = _known(value)
    return units.MISSING if known is None else units.significant(known)


@register.filter
def signed_percent(value: float) -> str:
    """A difference as a share, in percent with its sign: +1.2, −0.4."""
    return f"{value * 100:+.1f}".replace("-", "−")


@register.filter
def limit_word(name: str) -> str:
    """What limits a step of the latency model."""
    return words.limit(name)


@register.filter
def support_word(name: str) -> str:
    """Whether a card calculates in a precision."""
    return words.support(name)


@register.filter
def said_each(text: str) -> str:
    """Several sentences in a row, each in the reader's language."""
    found = re.split(r"(?<=[.]) (?=[A-Z])", text)
    return format_html_join(" ", "{}", ((said(one),) for one in found)) if text else ""


@register.filter
def duration(value: Any) -> str:
    return units.duration(_known(value))


@register.filter
def parameters(value: int | None) -> str:
    """A model's size as people say it: 135 M, 7.24 B."""
    if value is None:
        return units.MISSING
    for size, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if value >= size:
            return f"{units.significant(value / size)} {letter}"
    return units.count(value)


@register.filter
def word(name: str) -> str:
    """The word for a state, status, engine, role, verb, level or kind of object."""
    return words.of(name)


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


@register.simple_tag
def verb(name: str) -> SafeString:
    """What an event did; its name, by which it is searched, is the title."""
    return format_html('<span class="tag" title="{}">{}</span>', name, words.verb(name))


@register.simple_tag
def rule(name: str) -> SafeString:
    """The rule behind a decision; its name is the title."""
    return format_html('<span class="tag" title="{}">{}</span>', name, words.rule(name))


@register.filter
def as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


@register.filter
def get(mapping: Mapping[str, Any], key: str) -> Any:
    return mapping.get(key)


@register.filter
def used(stack: list[memory.Part]) -> int:
    return memory.used_bytes(stack)


@register.filter
def total(stack: list[memory.Part]) -> int:
    return memory.total_bytes(stack)


@register.filter
def plain(value: float) -> str:
    """A number for an HTML attribute: no separators, no trailing zeros."""
    return f"{value:.12g}" if abs(value) < 1e15 else str(int(value))


@register.filter
def told(value: object) -> str:
    """A number of the journal: lists without brackets, floats with three figures."""
    if isinstance(value, list):
        return ", ".join(told(one) for one in value)
    return units.quantity(value) if isinstance(value, float) else str(value)


@register.filter
def split(text: str) -> list[str]:
    return text.split(",")


@register.simple_tag
def linked(rows: Iterable[journal_links.Row], wanted: object = True) -> list[tuple[journal_links.Row, str]]:
    """Rows of the journal, each with where its object has its page; "" when it has none, or none is wanted."""
    return journal_links.linked(rows) if wanted else [(row, "") for row in rows]


@register.simple_tag
def text(message: str) -> str:
    """Translates a string that another part of the program brings, such as an engine's setting."""
    return _(message) if message else ""


@register.simple_tag(takes_context=True)
def page_frame(context: template.Context) -> frame.Frame:
    """What the frame of every page shows."""
    return frame.of(context["request"])
