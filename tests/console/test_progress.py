from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.console import progress
from controlplane.deployments import selectors
from tests.console import making

pytestmark = [pytest.mark.django_db, pytest.mark.services]


def progress_of(name: str = "chat") -> progress.Progress:
    return progress.of(selectors.deployment(name))


def test_all_that_is_wanted_and_ready_is_settled() -> None:
    making.make_replica(making.make_deployment("chat"), making.make_node("n", cards=1))
    found = progress_of()
    assert found.settled and found.steps == [] and (found.ready, found.wanted) == (1, 1)


def test_a_start_shows_its_stages_and_what_it_usually_takes() -> None:
    row = making.make_deployment("chat", replicas_wanted=3)
    node = making.make_node("n", cards=1)
    making.make_replica(row, node, facts={"start_s": 30.0})
    begun = timezone.now() - timedelta(seconds=15)
    making.make_replica(row, node, state="starting", process_started_at=begun)
    found = progress_of()
    (step,) = found.steps
    assert (found.settled, found.expected_s, found.missing) == (False, 30.0, 1)
    assert step.share == pytest.approx(0.5, abs=0.05)
    assert [at for _state, _word, at in step.stages] == ["done", "done", "now", "todo", "todo"]


def test_a_start_that_takes_too_long_says_so() -> None:
    row = making.make_deployment("chat", replicas_wanted=2)
    making.make_replica(row, making.make_node("n", cards=1), facts={"start_s": 10.0})
    begun = timezone.now() - timedelta(seconds=60)
    making.make_replica(row, None, state="starting", process_started_at=begun)
    (step,) = progress_of().steps
    assert step.share == 0.98 and "longer than usual" in step.note


def test_a_drain_tells_how_many_requests_still_run() -> None:
    row = making.make_deployment("chat", desired_state="stopped")
    making.make_replica(row, making.make_node("n", cards=1), state="draining", goal="stop", in_flight=3)
    found = progress_of()
    assert not found.settled and "3 requests still run" in found.steps[0].note


def test_a_failure_tells_why_and_when_it_is_tried_again() -> None:
    retry_at = timezone.now() + timedelta(seconds=20)
    row = making.make_deployment("chat")
    making.make_replica(row, None, state="failed", reason_message="It ended.", retry_at=retry_at)
    (step,) = progress_of().steps
    assert step.note.startswith("It ended. Next try in 2")
