from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from controlplane.accounts.models import Role, User
from controlplane.accounts.roles import require
from controlplane.accounts.services import login, users
from controlplane.accounts.services.users import UserWish
from controlplane.domain.errors import RefusedError
from controlplane.journal.services.record import SYSTEM

pytestmark = [pytest.mark.services]
PASSWORD = "a long password 9"


def make_administrator(username: str) -> User:
    return users.create(actor=SYSTEM, username=username, password=PASSWORD, role="administrator")


@pytest.mark.django_db
@pytest.mark.parametrize("username", ["", "a/b", "a b", "-a", "ä", "a" * 151, "a\n"])
def test_a_name_that_can_not_be_an_address_is_refused(username: str) -> None:
    with pytest.raises(RefusedError) as refused:
        users.create(actor=SYSTEM, username=username, password=PASSWORD)
    assert "username" in refused.value.fields


@pytest.mark.django_db
def test_a_name_that_is_taken_is_refused() -> None:
    make_administrator("ada")
    with pytest.raises(RefusedError, match="changed meanwhile"):
        make_administrator("ada")


@pytest.mark.django_db
def test_guesses_of_ones_own_password_are_slowed_down_and_nobody_elses() -> None:
    make_administrator("ada")
    make_administrator("bob")
    for _ in range(login.FREE_FAILURES + 1):
        with pytest.raises(RefusedError, match="is not right"):
            users.change_own_password(actor=SYSTEM, username="ada", current="a guess", new="another password 9")
    with pytest.raises(RefusedError, match="Too many failed attempts"):
        users.change_own_password(actor=SYSTEM, username="ada", current=PASSWORD, new="another password 9")
    users.change_own_password(actor=SYSTEM, username="bob", current=PASSWORD, new="another password 9")
    assert User.objects.get(username="ada").check_password(PASSWORD)
    assert User.objects.get(username="bob").check_password("another password 9")


@pytest.mark.django_db
def test_a_role_includes_the_lower_ones() -> None:
    ada = make_administrator("ada")
    require(ada, Role.VIEWER)
    ada.role = Role.OPERATOR
    require(ada, Role.OPERATOR)
    with pytest.raises(RefusedError):
        require(ada, Role.ADMINISTRATOR)


@pytest.mark.django_db(transaction=True)
def test_two_administrators_who_remove_each_other_do_not_both_win() -> None:
    make_administrator("ada")
    make_administrator("bob")
    refused: list[str] = []
    start = threading.Barrier(2)

    def attempt(act: Callable[[], object]) -> None:
        start.wait()
        try:
            act()
        except RefusedError as error:
            refused.append(error.code)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=attempt, args=(lambda: users.delete(actor=SYSTEM, username="ada"),)),
        threading.Thread(
            target=attempt, args=(lambda: users.apply(actor=SYSTEM, username="bob", wish=UserWish(role="viewer")),)
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["last_administrator"]
    assert User.objects.filter(role="administrator", is_active=True).count() == 1
