"""What of quotas is used now, through real leases."""

from __future__ import annotations

import asyncio

import pytest

from controlplane.accounts.models import Tenant
from controlplane.domain.gateway_state import GatewayState, LeaseState
from controlplane.domain.quotas.book import SliceBook
from controlplane.domain.quotas.quota import Quota, Who
from controlplane.lib import gateway_state, keys, valkey, wire
from controlplane.lib.quota_leases import Leases
from controlplane.traffic import limits_now
from controlplane.traffic.models import Quota as QuotaRow

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]

LIMITS = {"tokens_per_day": 10_000, "requests_per_minute": 600, "concurrent_requests": 4}


def make_row() -> QuotaRow:
    return QuotaRow.objects.create(name="daily", tenant=Tenant.objects.create(name="shop"), limits=LIMITS)


def used(row: QuotaRow) -> dict[str, int | None]:
    return {one.measure: one.use.used for one in limits_now.of([row])[row.pk]}


async def spend(url: str, row_id: int, tokens: int) -> None:
    client = valkey.connect_async(url)
    leases = Leases(client, SliceBook([Quota(str(row_id), "daily", "shop", limits=LIMITS)]), "g1")
    await leases.reserve("r1", Who("shop", "k", "chat"), tokens, 0)
    leases.book.settle("r1", tokens, 0)
    await leases.sync()
    await client.aclose()


def test_what_was_used_is_told_without_what_is_only_held(valkey_server: str) -> None:
    row, client = make_row(), valkey.connect(valkey_server)
    assert used(row) == {"tokens_per_day": None, "requests_per_minute": 0, "concurrent_requests": None}, "none is heard"
    client.set(keys.quota_use_known(), "1")
    asyncio.run(spend(valkey_server, row.pk, 700))
    lease = LeaseState("daily", "shop", "concurrent_requests", 4, 0, 2)
    client.zadd(keys.gateways(), {"g1": 1.0})
    state = wire.encode(GatewayState("g1", 1.0, leases=(lease,)))
    client.set(keys.gateway_state("g1"), state, px=int(gateway_state.KEPT_S * 1000))
    found = used(row)
    assert (found["tokens_per_day"], found["concurrent_requests"]) == (700, 2)
    assert found["requests_per_minute"] in (0, 1)


def test_without_valkey_nothing_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    row = make_row()
    monkeypatch.setenv("REDIS_URL", "unix:///nowhere/v.sock")
    assert used(row) == dict.fromkeys(LIMITS)
