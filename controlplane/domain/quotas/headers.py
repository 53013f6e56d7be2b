"""The `x-ratelimit-*` headers, as OpenAI sends them: limit, what remains, and how long until all of it is there.

They go with every answer to a limited key, so what can be made once is: the names and limits stand in a template, and
times come from a table of their texts in steps of 10 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.domain.quotas.measures import REQUESTS, TOKENS
from controlplane.domain.quotas.meter import Meter

STEP_S = 0.01
_DURATIONS: dict[int, bytes] = {}  # steps -> text; a limit a minute is whole again within a minute, so they are few


class RateLimitHeaders:
    """The headers for requests on which these limits are. Good until a limit changes."""

    __slots__ = ("_limits", "_template", "name")

    def __init__(self, meters: Sequence[Meter]) -> None:
        refilled = [meter for meter in meters if meter.measure.kind == "refilled"]
        by_unit = [
            (what, tuple(meter for meter in refilled if meter.unit == unit))
            for what, unit in (("requests", REQUESTS), ("tokens", TOKENS))
        ]
        known = [(what, found) for what, found in by_unit if found]
        self._limits = tuple(found for _, found in known)
        rows = [
            f"x-ratelimit-{field}-{what}: %{kind}"
            for what, _ in known
            for field, kind in (("limit", "d"), ("remaining", "d"), ("reset", "b"))
        ]
        name, _, rest = "\r\n".join(rows).partition(": ")
        self.name, self._template = name.encode(), rest.encode()

    def value(self, now: float) -> bytes:
        """Returns what follows `name`: the value of the first header and the whole lines of the others, in the form in
        which they stand in the head of an answer. Of several limits on a unit it is the one with the least left; no
        limit a minute, nothing."""
        values: list[int | bytes] = []
        for meters in self._limits:
            meter = meters[0]
            left = meter.remaining(now)
            for other in meters[1:]:
                others = other.remaining(now)
                if others < left:
                    meter, left = other, others
            limit = meter.limit
            steps = -((left - limit) * 6000 // limit) if limit else 0
            text = _DURATIONS.get(steps)
            if text is None:
                text = _DURATIONS[steps] = duration(steps * STEP_S).encode()
            values += (limit, left, text)
        return self._template % tuple(values)


def duration(seconds: float) -> str:
    """Returns a time as OpenAI writes it: `17ms`, `8.64s`, `6m0s`, `2h3m0s`; rounded up to a millisecond."""
    milliseconds = int(-(-round(max(0.0, seconds) * 1000, 6) // 1))
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    whole = -(-milliseconds // 1000)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return (f"{hours}h" if hours else "") + f"{minutes}m{whole % 60}s"
