"""Two people at the same moment, on real transactions in real threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from controlplane.deployments.models import Deployment, Revision
from controlplane.deployments.services import deployments
from controlplane.domain.errors import RefusedError
from controlplane.journal.models import Event
from tests.deployments.making import ADA, make_deployment, make_wish

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]


def at_once(count: int, work: Callable[[int], object]) -> list[object]:
    """Runs `work` in threads that start together; returns answers and refusals."""
    start = threading.Barrier(count)
    found: list[object] = []

    def run(number: int) -> None:
        try:
            start.wait(20)
            found.append(work(number))
        except RefusedError as refused:
            found.append(refused)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == count
    return found


def test_of_two_changes_of_one_version_one_wins() -> None:
    version = make_deployment().version

    def change(number: int) -> object:
        wish = make_wish(replicas=number + 2, settings={"max_num_seqs": number + 1})
        return deployments.apply(actor=ADA, name="chat", wish=wish, expected_version=version)

    found = at_once(4, change)
    refusals = [one for one in found if isinstance(one, RefusedError)]
    assert len(refusals) == 3
    assert {one.code for one in refusals} == {"changed_meanwhile"}
    assert Deployment.objects.get().version == version + 1
    assert Revision.objects.count() == 2


def test_of_two_creations_of_one_name_one_wins() -> None:
    wish = make_wish()
    found = at_once(4, lambda _: deployments.apply(actor=ADA, name="chat", wish=wish))
    assert Deployment.objects.count() == 1
    assert Event.objects.filter(verb="deployment.created").count() == 1
    refusals = [one for one in found if isinstance(one, RefusedError)]
    assert {one.code for one in refusals} <= {"changed_meanwhile"}


def test_changes_without_a_version_all_come_through_one_after_another() -> None:
    make_deployment()
    at_once(4, lambda n: deployments.scale(actor=ADA, name="chat", replicas=n + 2))
    assert Deployment.objects.get().version == 5
