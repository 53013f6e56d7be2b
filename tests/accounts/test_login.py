from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.test import RequestFactory
from django.utils import timezone

from controlplane.accounts.forms import LoginForm
from controlplane.accounts.models import LoginBackoff
from controlplane.accounts.services import login
from controlplane.journal.models import Event
from tests.api.calling import make_user

NOW = timezone.now()
HERE, THERE = "192.0.2.1", "192.0.2.2"
GUESSES = login.FREE_FAILURES + 1
database = [pytest.mark.django_db, pytest.mark.services]


def fail(times: int, username: str = "ada", address: str = HERE) -> None:
    for _ in range(times):
        login.failed(username=username, address=address, now=NOW)


def wait_s(username: str = "ada", address: str = HERE, after_s: float = 0) -> float:
    return login.wait(username=username, address=address, now=NOW + timedelta(seconds=after_s)).total_seconds()


def log_in(password: str, address: str = HERE, username: str = "ada") -> Any:
    request = RequestFactory().post("/login/", REMOTE_ADDR=address)
    return authenticate(request, username=username, password=password)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (4, 0), (5, 2), (6, 4), (7, 8), (13, 512), (14, 900), (10_000, 900)]
)
def test_the_wait_doubles_up_to_a_quarter_of_an_hour(failures: int, seconds: int) -> None:
    assert login.wait_after(failures, login.FREE_FAILURES).total_seconds() == seconds


class TestBackoff:
    pytestmark = database

    def test_a_few_failures_cost_nothing(self) -> None:
        fail(login.FREE_FAILURES)
        assert wait_s() == 0

    def test_more_failures_cost_a_wait_that_ends(self) -> None:
        fail(GUESSES)
        assert wait_s() == 2
        assert wait_s(after_s=2.1) == 0

    def test_neither_another_account_nor_another_address_has_to_wait(self) -> None:
        fail(GUESSES)
        assert wait_s(username="bob") == 0
        assert wait_s(address=THERE) == 0

    def test_who_tries_many_accounts_from_one_address_has_to_wait(self) -> None:
        for number in range(login.FREE_FAILURES_OF_AN_ADDRESS + 1):
            fail(1, username=f"user-{number}")
        assert wait_s(username="ada") > 0

    def test_another_spelling_is_the_same_account(self) -> None:
        fail(GUESSES, username=" ADA")
        assert wait_s() == 2

    def test_a_success_forgives_the_account_but_not_the_address(self) -> None:
        fail(GUESSES)
        login.succeeded(username="ada", address=HERE)
        assert wait_s() == 0
        assert LoginBackoff.objects.count() == 1

    def test_a_day_forgives(self) -> None:
        fail(GUESSES)
        login.failed(username="bob", address=THERE, now=NOW + timedelta(days=2))
        assert LoginBackoff.objects.count() == 2

    def test_nothing_that_is_stored_names_anybody(self) -> None:
        fail(2)
        kept = str(list(LoginBackoff.objects.values()))
        assert "ada" not in kept
        assert HERE not in kept


class TestJournal:
    pytestmark = database

    def told(self) -> list[tuple[str, str, int]]:
        return [
            (one.object_id, one.message, one.numbers["failures"])
            for one in Event.objects.filter(verb="user.login_failed").order_by("id")
        ]

    def test_failures_of_an_account_are_one_row_that_counts(self) -> None:
        make_user(username="ada")
        fail(3)
        fail(2, address=THERE)
        assert self.told() == [("ada", "Somebody gave a wrong password.", 5)]
        login.failed(username="ada", address=HERE, now=NOW + timedelta(hours=1))
        assert [failures for _, _, failures in self.told()] == [5, 1]

    def test_a_name_that_no_user_has_is_not_written_down(self) -> None:
        for name in ("correct horse 7", "nobody", "root"):
            fail(1, username=name)
        assert self.told() == [("", "Somebody gave a name that no user has.", 3)]


class TestLoggingIn:
    pytestmark = database

    @pytest.fixture(autouse=True)
    def _ada(self) -> None:
        make_user(username="ada")

    def test_the_right_password_is_let_in(self) -> None:
        assert log_in("correct horse 7").username == "ada"

    def test_while_one_must_wait_the_right_password_is_not_let_in(self) -> None:
        for _ in range(GUESSES):
            assert log_in("wrong") is None
        assert log_in("correct horse 7") is None
        assert log_in("correct horse 7", address=THERE).username == "ada"

    def test_an_attempt_while_waiting_does_not_make_the_wait_longer(self) -> None:
        for _ in range(GUESSES + 5):
            log_in("wrong")
        assert set(LoginBackoff.objects.values_list("failures", flat=True)) == {GUESSES}

    def test_an_unknown_account_is_slowed_down_alike(self) -> None:
        for _ in range(GUESSES):
            log_in("wrong", username="nobody")
        assert LoginBackoff.objects.filter(failures=GUESSES).count() == 2

    def test_somebody_who_left_is_not_let_in(self) -> None:
        left = make_user(username="eve")
        left.is_active = False
        left.save()
        assert log_in("correct horse 7", username="eve") is None

    def test_the_form_says_how_long_to_wait(self) -> None:
        request = RequestFactory().post("/login/", REMOTE_ADDR=HERE)
        for _ in range(GUESSES):
            LoginForm(request, {"username": "ada", "password": "wrong"}).is_valid()
        form = LoginForm(request, {"username": "ada", "password": "correct horse 7"})
        assert not form.is_valid()
        assert "Try again in 2 seconds" in str(form.errors)

    def test_a_nul_in_the_name_is_only_wrong(self) -> None:
        assert log_in("x", username="a\0b") is None
