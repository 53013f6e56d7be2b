from __future__ import annotations

import pytest
import redis
from django.db import transaction

from controlplane.telemetry.services import notify

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]


class Published:
    """Stands where the client is, and may be away."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.is_away = False

    def publish(self, _channel: str, message: str) -> None:
        if self.is_away:
            raise redis.ConnectionError("away")
        self.messages.append(message)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Published:
    made = Published()
    monkeypatch.setattr(notify, "_client", made)
    monkeypatch.setattr(notify, "_silent_until", 0.0)
    return made


def test_a_change_that_is_rolled_back_is_not_announced(published: Published) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        notify.changed("deployment", "chat", "scaled")
        _ = 1 / 0
    assert published.messages == []


def test_a_valkey_that_is_away_costs_one_try_and_no_error(published: Published) -> None:
    published.is_away = True
    notify.changed("deployment", "chat", "scaled")
    published.is_away = False
    notify.changed("deployment", "chat", "scaled")
    assert published.messages == []  # still sparing everybody the wait
    notify._silent_until = 0.0
    notify.changed("deployment", "chat", "scaled")
    assert len(published.messages) == 1
