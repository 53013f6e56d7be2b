"""Tags of the pages of the gateway and of the rules of traffic: bars with both figures, words, amounts with units."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Literal

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from controlplane.console import ladder_steps, traffic_units, traffic_words, units
from controlplane.console.tags.numbers import known
from controlplane.domain.gateway_state import Heard, LadderState, LeaseState
from controlplane.traffic.limits_now import Limit

register = template.Library()


@register.simple_tag
def gauge(
    value: float | None, limit: float | None, css: str, form: str = "count", unit: str = "", *, head_unit: str = ""
) -> SafeString:
    """A value of a limit as a bar and in figures; without a limit the figure alone. `form`: a name of `FORMS`.

    `head_unit` stands in the head of the column: beside the figure only where a card has taken the row's place.
    """
    write = traffic_units.FORMS[form]
    css_of_unit = "unit" if unit else "unit card-only"
    shown = (unit or head_unit) and value is not None
    tail = format_html(' <span class="{}">{}</span>', css_of_unit, unit or head_unit) if shown else ""
    if value is None or not limit:
        return format_html(
            '<span class="memory-cell of-{}"><svg class="bar" aria-hidden="true"></svg>'
            '<span class="num">{}{}</span></span>',
            css,
            write(value),
            tail,
        )
    share = max(0.0, min(1.0, value / limit))
    return format_html(
        '<span class="memory-cell of-{}"><svg class="bar" aria-hidden="true"><rect class="part-{}" width="{}%" '
        'height="100%"/></svg><span class="num">{}<span class="unit"> / {}</span>{}</span></span>',
        css,
        css,
        f"{share * 100:.1f}",
        write(value),
        write(limit),
        tail,
    )


@register.simple_tag
def lease_bar(lease: LeaseState) -> SafeString:
    """What is left of a limit that nobody holds."""
    form = "money" if lease.measure.startswith("money") else "count"
    return gauge(lease.left, lease.limit, "share", form)


@register.simple_tag
def limit_bar(limit: Limit) -> SafeString:
    """What is used of a limit, and the limit; a dash where nobody knows."""
    form, use = "money" if limit.measure.startswith("money") else "count", limit.use
    if use.used is not None:
        return gauge(use.used, use.limit, "share", form)
    empty = '<span class="memory-cell"><svg class="bar" aria-hidden="true"></svg><span class="num">{}{}</span></span>'
    most = format_html('<span class="unit"> / {}</span>', traffic_units.FORMS[form](use.limit))
    return format_html(empty, units.MISSING, most)


@register.simple_tag
def resets(limit: Limit) -> SafeString:
    """In how long all of a limit is there again."""
    at = datetime.fromtimestamp(limit.use.resets_at or 0.0, UTC)
    text = _("whole again in %(time)s") % {"time": units.duration((at - timezone.now()).total_seconds())}
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), units.absolute(at), text)


@register.filter
def silent_s(heard: Heard) -> int:
    """For how many whole seconds a gateway has said nothing."""
    return math.floor(heard.age_s)


@register.filter
def tier_word(name: str) -> str:
    return traffic_words.tier(name)


@register.filter
def refusal_word(name: str) -> str:
    """Why a gateway gave no seat."""
    return traffic_words.refusal(name)


@register.filter
def measure_word(name: str) -> str:
    """What a quota limits."""
    return traffic_words.measure(name)


@register.filter
def step_text(step: Any) -> str:
    """What a step of a ladder does, with its numbers and tiers."""
    return ladder_steps.told(step)


@register.filter
def done_to(ladder: LadderState | Literal[""] | None, number: int) -> str:
    """To which tiers a step of a ladder is done now; empty = to none."""
    if not ladder or ladder.level < number:
        return ""
    if not ladder.tiers:  # a gateway of an older version
        return _("all tiers")
    return ", ".join(traffic_words.tier(one) for one in ladder.done_to(number))


@register.filter
def per_s(value: Any) -> str:
    return units.rate(known(value))


@register.filter
def seconds(value: Any) -> str:
    return traffic_units.seconds(known(value))


@register.filter
def mib(value: Any) -> str:
    return traffic_units.mib(known(value))


@register.filter
def amount(value: float | None, measure: str) -> str:
    """An amount of what a quota limits: money with two decimals, everything else as it is counted."""
    return traffic_units.amount(value, measure)


@register.simple_tag
def seats_of(guaranteed: float, seats: int | None) -> str:
    """How many seats a guarantee is now; a dash where no gateway tells."""
    return units.MISSING if seats is None else units.quantity(guaranteed * seats)


@register.filter
def price(value: float | None) -> str:
    """What a million tokens cost: two decimals, more where they count."""
    if value is None:
        return units.MISSING
    return f"{value:,.2f}" if round(value, 2) == value else f"{value:,.6f}".rstrip("0")
