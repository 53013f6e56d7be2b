"""What of a limit is used, read from what the gateways share."""

from __future__ import annotations

from controlplane.domain.quotas.measures import MEASURES
from controlplane.domain.quotas.use import LimitUse, limit_use

NOON = 1_800_014_400.0  # 2027-01-15 12:00:00 UTC
DAY, MINUTE, HELD = (MEASURES[name] for name in ("tokens_per_day", "tokens_per_minute", "concurrent_requests"))


def use(measure: object, shared: dict[str, str], *, is_known: bool = True, running: int | None = 3) -> LimitUse:
    return limit_use(measure, 6000, shared, NOON, is_known=is_known, running=running)  # type: ignore[arg-type]


def test_what_gateways_only_hold_is_not_used() -> None:
    found = use(DAY, {"out": "4000.000000", "at": "1", "h:a": "500", "h:b": "1500", "s:a": "9"})
    assert (found.used, found.left) == (2000, 4000)
    assert found.resets_at == NOON + 12 * 3600


def test_a_limit_a_minute_comes_back_bit_by_bit() -> None:
    found = use(MINUTE, {"out": "4000", "at": str((NOON - 10) * 1000), "h:a": "1000"})
    assert found == LimitUse(6000, 2000, NOON + 20.0)
    assert use(MINUTE, {}) == LimitUse(6000, 0)


def test_more_than_the_limit_leaves_nothing() -> None:
    assert use(DAY, {"out": "7000"}).left == 0


def test_what_valkey_may_have_lost_is_not_known() -> None:
    assert use(DAY, {}).used == 0
    found = use(DAY, {}, is_known=False)
    assert (found.used, found.left, found.resets_at) == (None, None, NOON + 12 * 3600)


def test_places_are_those_of_running_requests() -> None:
    assert use(HELD, {"out": "20", "h:a": "20"}) == LimitUse(6000, 3)
    assert use(HELD, {}, running=None) == LimitUse(6000, None)
