from __future__ import annotations

import threading

import pytest
from django.db import connection

from controlplane.accounts.models import Tenant
from controlplane.accounts.services import tenants
from controlplane.domain.errors import RefusedError
from controlplane.journal.models import Event
from controlplane.journal.services.record import SYSTEM, Actor

pytestmark = [pytest.mark.services]


@pytest.mark.django_db
def test_the_same_again_writes_nothing() -> None:
    tenants.apply(actor=SYSTEM, name="demo", description="A")
    again = tenants.apply(actor=SYSTEM, name="demo", description="A")
    assert (again.changed, again.created, again.row.version) == (False, False, 1)
    assert Event.objects.count() == 1


@pytest.mark.django_db
def test_a_change_names_its_fields_and_makes_the_next_version() -> None:
    tenants.apply(actor=SYSTEM, name="demo", description="A")
    done = tenants.apply(actor=SYSTEM, name="demo", description="B", expected_version=1)
    assert (done.changed, done.fields, done.row.version) == (True, ("description",), 2)


@pytest.mark.django_db
def test_an_old_version_is_refused_with_who_was_there() -> None:
    tenants.apply(actor=SYSTEM, name="demo", description="A")
    tenants.apply(actor=Actor("user", "ada"), name="demo", description="B")
    with pytest.raises(RefusedError) as refused:
        tenants.apply(actor=SYSTEM, name="demo", description="C", expected_version=1)
    assert refused.value.code == "changed_meanwhile"
    assert refused.value.fields["changed_by"] == "ada"
    assert "by ada at" in refused.value.message


@pytest.mark.django_db
@pytest.mark.parametrize(("exists", "expected"), [(True, 0), (False, 1)])
def test_a_wrong_idea_whether_it_exists_is_refused(exists: bool, expected: int) -> None:
    if exists:
        tenants.apply(actor=SYSTEM, name="demo")
    with pytest.raises(RefusedError, match="demo"):
        tenants.apply(actor=SYSTEM, name="demo", expected_version=expected)


@pytest.mark.django_db(transaction=True)
def test_many_who_make_the_same_name_at_once_end_in_one_row() -> None:
    outcomes: list[bool] = []
    start = threading.Barrier(4)

    def make() -> None:
        start.wait()
        outcomes.append(tenants.apply(actor=SYSTEM, name="demo", description="A").created)
        connection.close()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, False, False, True]
    assert (Tenant.objects.get().version, Event.objects.count()) == (1, 1)
