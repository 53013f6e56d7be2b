"""What of a limit is used now, from what the gateways share about it (see `Pool` and Valkey's script)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.domain.quotas.measures import MINUTE_S, Measure
from controlplane.domain.quotas.slices import refill_per_s
from controlplane.domain.quotas.windows import window_of


@dataclass(frozen=True, slots=True)
class LimitUse:
    """`used` in the limit's own unit; None = nobody knows. `resets_at` (UTC seconds) is when all of it is there again;
    None where that is now, or when running requests end."""

    limit: int
    used: int | None
    resets_at: float | None = None

    @property
    def left(self) -> int | None:
        """What can still be had; 0 where more was used than the limit."""
        return None if self.used is None else max(0, self.limit - self.used)


def limit_use(
    measure: Measure, limit: int, shared: Mapping[str, str], now: float, *, is_known: bool, running: int | None
) -> LimitUse:
    """Returns what of a limit is used at `now`, by Valkey's clock.

    `shared` are the fields that gateways keep of it there (`out`, `at`, `h:<gateway>`), empty = none; `is_known`: that
    none means that nothing was used, and not that Valkey has lost it. `running` is what gateways say that requests hold
    of it: of limits that are held that alone counts.
    """
    if measure.kind == "held":
        return LimitUse(limit, running)
    if measure.kind == "refilled":
        used = _spent(shared, max(0.0, now - float(shared.get("at", 0)) / 1000) * refill_per_s(limit))
        return LimitUse(limit, used, now + used * MINUTE_S / limit if used and limit else None)
    _, ends_at = window_of(measure.kind, now)
    return LimitUse(limit, _spent(shared, 0.0) if shared or is_known else None, ends_at)


def _spent(shared: Mapping[str, str], came_back: float) -> int:
    """What is out, less what gateways only hold."""
    held = sum(float(units) for name, units in shared.items() if name.startswith("h:"))
    return round(max(0.0, float(shared.get("out", 0)) - came_back - held))
