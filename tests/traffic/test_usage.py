from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.db import connection
from django.utils import timezone

from controlplane.domain.usage import UsageRow
from controlplane.lib import keys, valkey, wire
from controlplane.traffic import selectors
from controlplane.traffic.models import UsageBatch, UsageMinute
from controlplane.traffic.services import usage

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]

MINUTE = 1_800_000_000 - 1_800_000_000 % 60


@pytest.fixture
def client(valkey_server: str) -> Iterator[redis.Redis]:
    client = valkey.connect(valkey_server)
    yield client
    client.close()


def make_row(**fields: object) -> UsageRow:
    given = {"minute": MINUTE, "tenant": "shop", "key_id": "1", "deployment": "chat", "requests": 1, **fields}
    return UsageRow(**given)  # type: ignore[arg-type]


def send(client: redis.Redis, *rows: UsageRow) -> None:
    client.xadd(keys.usage(), {"usage": wire.encode(list(rows))})


def test_batches_add_up_in_their_minute(client: redis.Redis) -> None:
    send(client, make_row(requests=2, prompt_tokens=10, completion_tokens=5, batch_id="a"))
    send(client, make_row(requests=1, errors=1, prompt_tokens=1, batch_id="b"), make_row(deployment="x", batch_id="b"))
    assert usage.drain(client) == 2
    row = UsageMinute.objects.get(deployment="chat")
    assert row.minute == datetime.fromtimestamp(MINUTE, UTC)
    assert (row.requests, row.errors, row.prompt_tokens, row.completion_tokens) == (3, 1, 11, 5)
    assert UsageMinute.objects.count() == 2


def test_what_was_taken_over_is_not_counted_again(client: redis.Redis) -> None:
    send(client, make_row(batch_id="a"))
    usage.drain(client)
    assert usage.drain(client) == 0
    assert UsageMinute.objects.get().requests == 1
    assert client.xlen(keys.usage()) <= 1


def test_a_batch_that_was_sent_twice_counts_once(client: redis.Redis) -> None:
    send(client, make_row(batch_id="a"))
    send(client, make_row(batch_id="a"))
    usage.drain(client)
    send(client, make_row(batch_id="a"))
    usage.drain(client)
    assert UsageMinute.objects.get().requests == 1


def test_what_can_t_be_read_holds_nobody_up(client: redis.Redis) -> None:
    client.xadd(keys.usage(), {"usage": b"{"})
    client.xadd(keys.usage(), {"other": b""})
    send(client, make_row(batch_id="a"))
    usage.drain(client)
    assert UsageMinute.objects.get().requests == 1


def test_nothing_is_lost_when_the_rows_can_t_be_written(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    send(client, make_row(batch_id="a"))
    with monkeypatch.context() as broken:
        broken.setattr(usage, "_ADD", "SELECT 1 FROM no_such_table WHERE %s IS NOT NULL" + " AND %s IS NOT NULL" * 7)
        with pytest.raises(Exception, match="no_such_table"):
            usage.drain(client)
    assert usage.drain(client) == 1
    assert UsageMinute.objects.get().requests == 1


@pytest.mark.parametrize(
    "odd",
    [{"requests": 2**70}, {"minute": 10**18}, {"minute": -(10**18)}, {"tenant": "a\x00b"}, {"batch_id": "x" * 60}],
)
def test_what_the_tables_can_t_hold_holds_nobody_up(client: redis.Redis, odd: dict) -> None:
    send(client, make_row(batch_id="a"))
    send(client, make_row(**{"batch_id": "odd", **odd}))
    send(client, make_row(batch_id="c"))
    assert usage.drain(client) == 2
    send(client, make_row(batch_id="d"), make_row(batch_id="d", deployment="x"))
    assert usage.drain(client) == 1
    assert UsageMinute.objects.get(deployment="chat").requests == 3


def test_a_stream_that_was_made_anew_by_a_clock_that_is_behind_is_counted(client: redis.Redis) -> None:
    send(client, make_row(batch_id="a"))
    usage.drain(client)
    client.flushall()
    client.xadd(keys.usage(), {"usage": wire.encode([make_row(batch_id="a")])}, id="1000-0")
    client.xadd(keys.usage(), {"usage": wire.encode([make_row(batch_id="b")])}, id="1000-1")
    assert usage.drain(client) == 1
    client.xadd(keys.usage(), {"usage": wire.encode([make_row(batch_id="c")])}, id="1000-2")
    assert usage.drain(client) == 1
    assert UsageMinute.objects.get().requests == 3


def test_two_workers_at_once_count_everything_once(client: redis.Redis) -> None:
    for index in range(200):
        send(client, make_row(batch_id=f"b{index}"))

    def work() -> None:
        try:
            usage.drain()
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert UsageMinute.objects.get().requests == 200


def test_ids_of_old_batches_are_forgotten() -> None:
    now = timezone.now()
    UsageBatch.objects.create(batch_id="old", taken_at=now - timedelta(days=8))
    UsageBatch.objects.create(batch_id="new", taken_at=now)
    usage.sweep(now=now, keep_days=400)
    assert UsageBatch.objects.get().batch_id == "new"


def test_totals_are_summed_for_each_name_since_a_moment() -> None:
    now = timezone.now()
    for minutes, name, requests in ((5, "a", 3), (50, "a", 4), (500, "a", 9), (5, "b", 1)):
        UsageMinute.objects.create(
            minute=now - timedelta(minutes=minutes), tenant="t", key_id="1", deployment=name, requests=requests
        )
    found = selectors.totals("deployment", ["a", "none"], since=now - timedelta(hours=1))
    assert {name: sums["requests"] for name, sums in found.items()} == {"a": 7}
    assert set(found["a"]) == set(selectors.COUNTERS)
    assert selectors.totals("tenant", ["t"], since=now - timedelta(hours=1))["t"]["requests"] == 8
