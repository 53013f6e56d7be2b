from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.journal import selectors
from controlplane.journal.models import Decision, Event
from controlplane.journal.services import record, retention
from controlplane.journal.services.record import SYSTEM, Actor

pytestmark = [pytest.mark.services, pytest.mark.django_db]


def make_event(**fields: object) -> Event:
    given = {"actor": Actor("user", "ada"), "verb": "deployment.created", "object_kind": "deployment",
             "object_id": "chat", "message": "Made."}  # fmt: skip
    return record.event(**{**given, **fields})  # type: ignore[arg-type]


def make_decision(**fields: object) -> Decision:
    given = {"rule": "placement", "object_kind": "replica", "object_id": "r1", "before": "pending", "after": "n1",
             "why": "It was free."}  # fmt: skip
    return record.decision(**{**given, **fields})  # type: ignore[arg-type]


def test_events_are_found_by_each_of_their_sides() -> None:
    made = make_event()
    make_event(actor=SYSTEM, verb="node.lost", object_kind="node", object_id="n1", message="Silent.", level="error")
    for found in (
        selectors.events(object_kind="deployment", object_id="chat"),
        selectors.events(verb="deployment.created"),
        selectors.events(verb="deployment."),
        selectors.events(actor="ada"),
        selectors.events(level="info"),
        selectors.events(search="made"),
    ):
        assert list(found) == [made]
    assert selectors.events(since=timezone.now() + timedelta(seconds=1)).count() == 0


def test_the_same_decision_is_counted_and_not_repeated() -> None:
    for number in range(3):
        made = make_decision(numbers={"free": number})
    assert (made.count, made.numbers) == (3, {"free": 2})
    make_decision(why="Another reason.")
    assert Decision.objects.count() == 2


def test_a_decision_after_a_long_pause_is_a_new_one() -> None:
    first = make_decision()
    Decision.objects.update(last_at=first.last_at - timedelta(minutes=11))
    make_decision()
    assert Decision.objects.count() == 2


def test_decisions_are_found_by_object_rule_and_words() -> None:
    made = make_decision()
    make_decision(rule="scale", object_id="r2", why="Too many.")
    assert list(selectors.decisions(object_kind="replica", object_id="r1")) == [made]
    assert list(selectors.decisions(rule="placement")) == [made]
    assert list(selectors.decisions(search="free")) == [made]
    assert selectors.decisions(since=timezone.now() + timedelta(seconds=1)).count() == 0


def test_the_journal_is_kept_for_a_set_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    now = timezone.now()
    for _ in range(5):
        make_event()
    make_decision()
    Event.objects.update(at=now - timedelta(days=91))
    Decision.objects.update(last_at=now - timedelta(days=91))
    young = make_event()
    assert retention.sweep(now=now, keep_days=90) == 6
    assert list(Event.objects.all()) == [young]
