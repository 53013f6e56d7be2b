"""The `x-ratelimit-*` headers, as OpenAI sends them: limit, what remains, and how long until all of it is there."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.domain.quotas import slices
from controlplane.domain.quotas.measures import REQUESTS
from controlplane.domain.quotas.meter import Meter


def rate_limit_headers(remaining: Iterable[tuple[Meter, int]]) -> list[tuple[str, str]]:
    """Returns the headers for the limits a minute on a request (`SliceBook.remaining`); of several on the same unit
    the one with the least left. No limit, no headers."""
    tightest: dict[str, tuple[Meter, int]] = {}
    for meter, left in remaining:
        what = "requests" if meter.measure.unit == REQUESTS else "tokens"
        if what not in tightest or left < tightest[what][1]:
            tightest[what] = (meter, left)
    found: list[tuple[str, str]] = []
    for what, (meter, left) in sorted(tightest.items()):
        rate = slices.refill_per_s(meter.limit)
        found += [
            (f"x-ratelimit-limit-{what}", str(meter.limit)),
            (f"x-ratelimit-remaining-{what}", str(left)),
            (f"x-ratelimit-reset-{what}", duration((meter.limit - left) / rate if rate else 0.0)),
        ]
    return found


def duration(seconds: float) -> str:
    """Returns a time as OpenAI writes it: `17ms`, `8.64s`, `6m0s`, `2h3m0s`; rounded up to a millisecond."""
    milliseconds = int(-(-max(0.0, seconds) * 1000 // 1))
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    whole = -(-milliseconds // 1000)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return (f"{hours}h" if hours else "") + f"{minutes}m{whole % 60}s"
