from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.deployments import selectors
from controlplane.deployments.controller.leadership import Leadership
from controlplane.deployments.controller.publish import Publisher
from controlplane.deployments.services import deployments, steps
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Accelerator, Reservation
from controlplane.fleet.services import reservations
from controlplane.lib import valkey
from tests.deployments.making import (
    ADA,
    make_deployment,
    make_external_wish,
    make_node,
    make_pool,
    make_replica,
)

pytestmark = [pytest.mark.services, pytest.mark.django_db]

GIB = 2**30


def test_deployments_are_filtered_by_engine_pool_and_words() -> None:
    make_pool("fast")
    make_deployment("chat")
    make_deployment("code", pool="fast")
    deployments.apply(actor=ADA, name="ext", wish=make_external_wish())
    assert [one.name for one in selectors.deployments(engine="external")] == ["ext"]
    assert [one.name for one in selectors.deployments(pool="fast")] == ["code"]
    assert [one.name for one in selectors.deployments(search="CHA")] == ["chat"]
    assert [one.name for one in selectors.deployments(search="smollm2")] == ["chat", "code"]


def test_replicas_are_filtered_and_ended_ones_are_shown_when_asked_for() -> None:
    deployment, other = make_deployment("chat"), make_deployment("code")
    ready = make_replica(deployment, state="ready", node=make_node())
    ended = make_replica(deployment, state="stopped", ended_at=timezone.now())
    make_replica(other)
    assert list(selectors.replicas(deployment="chat")) == [ready]
    assert list(selectors.replicas(node="n1")) == [ready]
    assert list(selectors.replicas(state="ready")) == [ready]
    assert set(selectors.replicas(deployment="chat", include_ended=True)) == {ready, ended}
    assert selectors.replica(ended.pk) == ended


def test_what_does_not_exist_is_a_clear_refusal() -> None:
    with pytest.raises(RefusedError, match="no deployment x"):
        selectors.deployment("x")
    with pytest.raises(RefusedError, match="no replica x"):
        selectors.replica("x")


def test_a_replica_s_history_is_told_in_order() -> None:
    row = make_replica(make_deployment())
    for to_state in ("placed", "stopped"):
        steps.write(replica_id=row.pk, from_state="pending", to_state=to_state, code="c", message="m")
    assert [(one.seq, one.to_state) for one in selectors.transitions(row)] == [(-1, "placed"), (-2, "stopped")]


def test_an_endpoint_reads_back_as_it_was_wished_without_its_key() -> None:
    wish = make_external_wish(external_key="sk-1")
    deployments.apply(actor=ADA, name="ext", wish=wish)
    back = selectors.wish(selectors.deployment("ext"))
    assert (back.external_url, back.external_model, back.external_key) == (wish.external_url, "llama", None)


@pytest.mark.django_db(transaction=True)
def test_the_state_of_control_tells_what_is_wrong_in_a_sentence(valkey_server: str) -> None:
    state = selectors.control_state()
    assert (state.led, state.published_s_ago) == (False, None)
    assert "No controller leads" in state.problem and state.hint
    leadership = Leadership()
    try:
        assert leadership.try_lead()
        assert "has published nothing yet" in selectors.control_state().problem
        with valkey.connect(valkey_server) as client:
            Publisher(leadership, client).run(1000.0)
        assert selectors.control_state(1004.0) == selectors.ControlState(led=True, published_s_ago=4.0)
        assert "has published nothing for 60 s" in selectors.control_state(1060.0).problem
    finally:
        leadership.release()


@pytest.mark.django_db
def test_the_state_of_control_without_valkey_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "unix:///nowhere/v.sock")
    assert "Valkey does not answer" in selectors.control_state().problem


def test_what_an_ended_engine_left_is_not_hidden_by_one_that_starts_beside_it() -> None:
    node = make_node(cards=1, kind="gpu")
    starts = make_replica(make_deployment(), node=node, state="starting")
    ended = timezone.now() - timedelta(seconds=20)
    reading = {"memory_used_bytes": 35 * GIB, "written_at": ended.timestamp() + 10}
    Accelerator.objects.update(memory_total_bytes=80 * GIB, observed=reading)
    card = Accelerator.objects.get()
    Reservation.objects.create(accelerator=card, owner_id=starts.pk, memory_bytes=40 * GIB)
    Reservation.objects.create(accelerator=card, owner_id="before", memory_bytes=30 * GIB, releasing_since=ended)
    assert selectors.up([starts.pk, "before"]) == set()
    assert reservations.settle(timezone.now(), selectors.up) == 0
    starts.state = "ready"
    starts.save()
    assert selectors.up([starts.pk, "before"]) == {starts.pk}
    assert reservations.settle(timezone.now(), selectors.up) == 1
    assert Reservation.objects.get().owner_id == starts.pk
