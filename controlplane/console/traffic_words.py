"""Words for the names that are stored of traffic: tiers, refusals, what quotas limit, steps of ladders."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

TIERS: dict[str, Promise] = {
    "interactive": _("Interactive"),
    "standard": _("Standard"),
    "batch": _("Batch"),
}

REFUSALS: dict[str, Promise] = {  # why a gateway gave no seat
    "queue_full": _("Queue is full"),
    "queue_bytes": _("Queue is full, in bytes"),
    "too_slow": _("Would have waited too long"),
    "expired": _("Waited too long"),
    "no_replica": _("No replica is ready"),
    "too_long": _("Longer than the KV cache"),
    "too_many": _("Answers together longer than the KV cache"),
    "engine_full": _("Engine's own queue is full"),
    "shed": _("Shed by the ladder"),
    "quota": _("Over a quota"),
    "rate_limit_exceeded": _("Over a quota a minute"),
    "insufficient_quota": _("Quota is used up"),
}

MEASURES: dict[str, Promise] = {  # what a quota limits
    "requests_per_minute": _("Requests a minute"),
    "tokens_per_minute": _("Tokens a minute"),
    "concurrent_requests": _("Requests at once"),
    "tokens_per_day": _("Tokens a day"),
    "tokens_per_month": _("Tokens a month"),
    "money_per_day": _("Money a day"),
    "money_per_month": _("Money a month"),
}

STEPS: dict[str, Promise] = {
    "cap_tokens": _("Shorter answers"),
    "divert": _("Another deployment"),
    "shed": _("Refuse"),
}

# fields of a wish, as journal and refusals name them; an engine's settings have labels of their own


def tier(name: str) -> str:
    """Returns the word for a tier."""
    return str(TIERS.get(name, name))


def refusal(name: str) -> str:
    """Returns why a gateway refused; an unknown reason is shown as it is."""
    return str(REFUSALS.get(name, name))


def measure(name: str) -> str:
    """Returns what a quota limits."""
    return str(MEASURES.get(name, name))


def step(name: str) -> str:
    """Returns what a kind of step of a ladder does; an unknown one is shown as it is."""
    return str(STEPS.get(name, name))
