"""A Valkey that has lost its data is told what was used of days and months."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import redis

from controlplane.accounts.models import Tenant
from controlplane.domain.quotas.slices import Ask
from controlplane.domain.quotas.windows import start_of, window_of
from controlplane.lib import keys, quota_leases, valkey
from controlplane.traffic.models import Quota, UsageMinute
from controlplane.traffic.services import quota_use

pytestmark = [pytest.mark.services, pytest.mark.django_db]


@pytest.fixture
def client(valkey_server: str) -> Iterator[redis.Redis]:
    client = valkey.connect(valkey_server)
    yield client
    client.close()


def make_quota(key_id: int | None = None, **limits: int) -> Quota:
    tenant, _ = Tenant.objects.get_or_create(name="shop")
    return Quota.objects.create(tenant=tenant, name=f"q{key_id}", key_id=key_id, limits=limits)


def make_use(tokens: int, key_id: str = "1", tenant: str = "shop", ago: timedelta = timedelta()) -> None:
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - ago
    UsageMinute.objects.create(
        minute=minute, tenant=tenant, key_id=key_id, deployment="chat", requests=1, prompt_tokens=tokens
    )


def left(client: redis.Redis, quota: Quota, measure: str, limit: int, held: int = 0) -> int:
    """What a gateway is told that it could still have."""
    kind = measure.rpartition("_")[2]
    ask = Ask(f"{quota.pk}:{measure}", kind, limit, 0, 0, held, held, 0, 0, -1)  # type: ignore[arg-type]
    said = quota_leases.arguments("g", [ask])
    _, [reply] = quota_leases.answers([ask], client.eval(quota_leases.SCRIPT, 1, keys.quota_gateways(), *said))
    return reply.left


def test_what_the_rows_know_is_the_floor(client: redis.Redis) -> None:
    quota = make_quota(tokens_per_day=1000, tokens_per_month=5000, requests_per_minute=7)
    make_use(300)
    make_use(50, key_id="2")
    make_use(9999, tenant="other", key_id="9")
    assert quota_use.restore(client) == 2
    assert left(client, quota, "tokens_per_day", 1000) == 650
    assert left(client, quota, "tokens_per_month", 5000) == 4650


def test_the_use_of_a_key_is_that_keys(client: redis.Redis) -> None:
    quota = make_quota(key_id=2, tokens_per_day=1000)
    make_use(300)
    make_use(50, key_id="2")
    quota_use.restore(client)
    assert left(client, quota, "tokens_per_day", 1000) == 950


def test_what_gateways_hold_counts_beside_the_rows(client: redis.Redis) -> None:
    quota = make_quota(tokens_per_day=1000)
    make_use(300)
    assert left(client, quota, "tokens_per_day", 1000, held=100) == 900, "they were the first to speak"
    quota_use.restore(client)
    assert left(client, quota, "tokens_per_day", 1000, held=100) == 600


def test_again_changes_nothing_and_later_rows_still_count(client: redis.Redis) -> None:
    quota = make_quota(tokens_per_day=1000)
    make_use(300)
    assert [quota_use.restore(client) for _ in range(3)] == [1, 0, 0]
    make_use(40, key_id="2")
    assert quota_use.restore(client) == 1
    assert left(client, quota, "tokens_per_day", 1000) == 660
    client.set(keys.quota_use_known(), repr(time.time() - quota_use.FOR_S - 1))
    make_use(500, key_id="3")
    assert quota_use.restore(client) == 0, "what gateways say is newer than the rows"


def test_a_month_begins_with_its_first_day() -> None:
    number, ends_at = window_of("month", 1_796_000_000.0)  # 2026-11-30
    assert datetime.fromtimestamp(start_of("month", number), UTC) == datetime(2026, 11, 1, tzinfo=UTC)
    assert datetime.fromtimestamp(ends_at, UTC) == datetime(2026, 12, 1, tzinfo=UTC)
    assert start_of("day", 20787) == 20787 * 86_400.0
