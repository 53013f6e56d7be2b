from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from controlplane.domain.degradation import LevelChange
from controlplane.journal.models import Decision
from controlplane.lib import keys, valkey, wire
from controlplane.traffic.services import ladder_news

pytestmark = [pytest.mark.services, pytest.mark.django_db]


@pytest.fixture
def client(valkey_server: str) -> Iterator[redis.Redis]:
    client = valkey.connect(valkey_server)
    yield client
    client.close()


def tell(client: redis.Redis, before: int, after: int) -> None:
    change = LevelChange("chat", 1_800_000_000.0, before, after, "cap_tokens", "The saturation is 1.20.", 1.2)
    client.xadd(keys.ladder_changes(), {"change": wire.encode(change)})


def test_level_changes_stand_in_the_journal_once(client: redis.Redis) -> None:
    tell(client, 0, 1)
    client.xadd(keys.ladder_changes(), {"change": b"{"})
    tell(client, 1, 0)
    assert ladder_news.take_over(client) == 2
    rows = list(Decision.objects.order_by("pk"))
    assert [(one.rule, one.deployment, one.before, one.after) for one in rows] == [
        ("degrade", "chat", "level 0", "level 1"),
        ("degrade", "chat", "level 1", "level 0"),
    ]
    assert rows[0].numbers["step"] == "cap_tokens"
    assert ladder_news.take_over(client) == 0
    assert client.xlen(keys.ladder_changes()) == 0


def test_the_same_change_again_counts_up(client: redis.Redis) -> None:
    for _ in range(2):
        tell(client, 0, 1)
        ladder_news.take_over(client)
    assert Decision.objects.get().count == 2
