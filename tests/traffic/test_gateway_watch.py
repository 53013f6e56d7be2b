"""Gateway processes that go silent stand in the journal, once, and those that say goodbye do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from controlplane.domain.gateway_state import GatewayState
from controlplane.journal.models import Event
from controlplane.lib import gateway_state, keys, valkey, wire
from controlplane.traffic.services import gateway_watch

pytestmark = [pytest.mark.services, pytest.mark.django_db]


@pytest.fixture
def client(valkey_server: str) -> Iterator[redis.Redis]:
    client = valkey.connect(valkey_server)
    yield client
    client.close()


def spoke(client: redis.Redis, gateway_id: str, ago_s: float) -> None:
    state = GatewayState(gateway_id, 1_800_000_000.0, address="127.0.0.1:8080", pid=77)
    left_ms = int((gateway_state.KEPT_S - ago_s) * 1000)
    client.set(keys.gateway_state(gateway_id), wire.encode(state), px=left_ms)
    client.zadd(keys.gateways(), {gateway_id: 1.0})


def test_one_that_has_gone_silent_is_told_of_once(client: redis.Redis) -> None:
    spoke(client, "dead", ago_s=8)
    spoke(client, "late", ago_s=4)
    spoke(client, "well", ago_s=0)
    assert gateway_watch.look(client) == 1
    assert gateway_watch.look(client) == 0
    told = Event.objects.get()
    assert (told.verb, told.level, told.object_kind, told.object_id) == ("gateway.silent", "warning", "gateway", "dead")
    assert "127.0.0.1:8080" in told.message
    assert told.numbers["pid"] == 77


def test_one_that_says_goodbye_is_not_told_of(client: redis.Redis) -> None:
    spoke(client, "dead", ago_s=8)
    client.delete(keys.gateway_state("dead"))
    assert gateway_watch.look(client) == 0
    assert not Event.objects.exists()
