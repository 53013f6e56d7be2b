from __future__ import annotations

from datetime import timedelta
from importlib import import_module

import pytest
from django.apps import apps
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


def test_a_model_s_events_are_those_of_its_variants_too() -> None:
    made = [
        make_event(object_kind="model", object_id="llama"),
        make_event(object_kind="variant", object_id="llama/fp8"),
    ]
    make_event(object_kind="variant", object_id="llama-2/fp8")
    make_event(object_kind="deployment", object_id="llama")
    assert set(selectors.events(of_model="llama")) == set(made)


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


def test_a_deployment_has_its_own_rows_and_those_of_its_replicas() -> None:
    own, of_replica = make_event(), make_event(object_kind="replica", object_id="r1", deployment="chat")
    make_event(object_id="other")
    make_event(object_kind="node", object_id="chat")
    assert set(selectors.events(deployment="chat")) == {own, of_replica}
    decided = make_decision(deployment="chat")
    make_decision(deployment="other", object_id="r2")
    assert list(selectors.decisions(deployment="chat")) == [decided]


def test_older_rows_get_their_deployment() -> None:
    make_event(object_id="x" * 60)
    make_event(object_kind="replica", object_id="r1", object_name="chat/r1")
    make_event(object_kind="node", object_id="n1", object_name="n1/x")
    make_decision(object_name="chat/r1")
    make_decision(rule="unknown_replica", object_name="n1/r1")
    Event.objects.update(deployment="")
    import_module("controlplane.journal.migrations.0004_fill_deployment").fill(apps, None)
    assert list(Event.objects.order_by("id").values_list("deployment", flat=True)) == ["x" * 60, "chat", ""]
    assert list(Decision.objects.order_by("id").values_list("deployment", flat=True)) == ["chat", ""]


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
