from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from controlplane import dispatch
from controlplane.deployments.controller.leadership import Leadership, LostError
from controlplane.deployments.selectors import is_led
from controlplane.lib import advisory_locks

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def two() -> Iterator[tuple[Leadership, Leadership]]:
    first, second = Leadership(), Leadership()
    yield first, second
    first.release()
    second.release()


def end_leader_s_session() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks"
            " WHERE locktype = 'advisory' AND objid = %s AND granted",
            [advisory_locks.CONTROLLER_LEADER],
        )


def test_one_leads_and_the_other_waits(two: tuple[Leadership, Leadership]) -> None:
    first, second = two
    assert not is_led()
    assert first.try_lead()
    assert not second.try_lead()
    assert is_led()
    first.release()
    assert second.try_lead()


def test_who_lost_its_session_does_not_lead(two: tuple[Leadership, Leadership]) -> None:
    first, second = two
    first.try_lead()
    end_leader_s_session()
    with pytest.raises(LostError):
        first.check()
    assert not first.leads
    assert second.try_lead()
    assert not first.try_lead()


def test_a_version_comes_only_from_the_leader(two: tuple[Leadership, Leadership]) -> None:
    first, second = two
    first.try_lead()
    early = first.next_version()
    end_leader_s_session()
    second.try_lead()
    with pytest.raises(LostError):
        first.next_version()
    assert second.next_version() > early


def test_a_follower_can_t_pass_the_check(two: tuple[Leadership, Leadership]) -> None:
    two[0].try_lead()
    two[1].try_lead()
    with pytest.raises(LostError):
        two[1].check()


def test_the_leader_is_woken_by_a_change(two: tuple[Leadership, Leadership]) -> None:
    leader = two[0]
    leader.try_lead()
    assert not leader.was_woken()
    dispatch.wake_controller()
    assert leader.was_woken()
    assert not leader.was_woken()


def test_waiting_for_notices_also_finds_a_lost_session(two: tuple[Leadership, Leadership]) -> None:
    two[0].try_lead()
    end_leader_s_session()
    with pytest.raises(LostError):
        two[0].was_woken()


def test_a_database_that_is_away_is_an_error_and_not_a_lost_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = {**connection.get_connection_params(), "port": "1"}
    monkeypatch.setattr(connection, "get_connection_params", lambda: parameters)
    with pytest.raises(psycopg.OperationalError):
        Leadership().try_lead()
