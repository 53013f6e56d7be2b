"""The `x-ratelimit-*` headers, as OpenAI sends them: limit, what remains, and how long until all of it is there.

They go with every answer to a limited key, so what can be made once is: the names and limits stand in a template, and
times come from a table of their texts in steps of 10 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.domain.quotas.measures import REQUESTS, TOKENS
from controlplane.domain.quotas.meter import Meter
from controlplane.domain.quotas.slices import refill_per_s

STEPS = 6000  # of 10 ms in a minute, in which a limit a minute is whole again
FIELDS = (("limit", b"%d"), ("remaining", b"%d"), ("reset", b"%b"))
Row = tuple[Meter, int, float, float]  # limit, what comes back in a second, steps for each that is missing


class RateLimitHeaders:
    """The headers for requests on which these limits are. Good until a limit changes."""

    __slots__ = ("_rows", "_template", "_units", "name")

    def __init__(self, meters: Sequence[Meter]) -> None:
        limited = [meter for meter in meters if meter.kind == "refilled" and meter.limit > 0]
        by_unit = [
            (what, tuple(_row(meter) for meter in limited if meter.unit == unit))
            for what, unit in (("requests", REQUESTS), ("tokens", TOKENS))
        ]
        known = [(what, rows) for what, rows in by_unit if rows]
        self._units = tuple(rows for _, rows in known)
        # nearly always there is one limit on each unit, which can stand in the template then
        self._rows = tuple(rows[0] for rows in self._units) if all(len(rows) == 1 for rows in self._units) else ()
        lines = [
            b"x-ratelimit-%b-%b: %b"
            % (field.encode(), what.encode(), b"%d" % rows[0][1] if self._rows and field == "limit" else form)
            for what, rows in known
            for field, form in FIELDS
        ]
        self.name, _, self._template = b"\r\n".join(lines).partition(b": ")

    def value(self, now: float) -> bytes:
        """Returns what follows `name`: the value of the first header and the whole lines of the others, in the form in
        which they stand in the head of an answer. Of several limits on a unit it is the one with the least left; no
        limit a minute, nothing."""
        values: list[int | bytes] = []
        for meter, limit, per_s, steps in self._rows or self._tightest(values, now):
            left, elapsed_s = meter.stock, now - meter.left_at  # below 0: what is left was heard meanwhile
            shared = meter.left + elapsed_s * per_s if elapsed_s > 0.0 else meter.left
            if shared > 0:
                left += int(shared)
            if left >= limit:
                values += (limit, b"0ms")
            elif left > 0:
                values += (left, _DURATIONS[int((limit - left) * steps + 0.9999)])
            else:
                values += (0, _DURATIONS[STEPS])
        return self._template % tuple(values)

    def _tightest(self, values: list[int | bytes], now: float) -> Iterator[Row]:
        """Yields the limit of each unit that counts now, its number being put before what is told of it."""
        for rows in self._units:
            row = min(rows, key=lambda one: one[0].remaining(now))
            values.append(row[1])
            yield row


def _row(meter: Meter) -> Row:
    return meter, meter.limit, refill_per_s(meter.limit), STEPS / meter.limit


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


_DURATIONS = [duration(step / 100).encode() for step in range(STEPS + 1)]
