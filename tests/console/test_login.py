from __future__ import annotations

import pytest
from django.test import Client

from controlplane.journal.models import Event
from tests.console import making

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def log_in(client: Client, password: str, next_page: str = "") -> tuple[int, str]:
    response = client.post("/login/", {"username": "ada", "password": password, "next": next_page})
    return response.status_code, response.content.decode() if response.status_code != 302 else response["Location"]


def test_the_right_password_leads_to_where_one_was_going() -> None:
    making.make_user()
    assert log_in(Client(), making.PASSWORD) == (302, "/")
    assert log_in(Client(), making.PASSWORD, "/nodes/") == (302, "/nodes/")
    assert log_in(Client(), making.PASSWORD, "https://evil.example.org/") == (302, "/")


def test_a_wrong_password_says_so_and_guessing_is_slowed_down() -> None:
    making.make_user()
    client = Client()
    status, text = log_in(client, "wrong")
    assert status == 403 and "Please enter a correct username and password" in text
    for _ in range(6):
        status, text = log_in(client, "wrong")
    assert status == 403 and "Too many failed attempts" in text
    assert log_in(client, making.PASSWORD)[0] == 403


def test_the_language_is_chosen_before_logging_in_and_kept() -> None:
    client = Client()
    response = client.post("/language/", {"language": "zh-hans", "next": "/login/"})
    assert (response.status_code, response["Location"]) == (302, "/login/")
    assert "登录" in client.get("/login/").content.decode()
    assert client.post("/language/", {"language": "xx", "next": "//evil.example.org"})["Location"] == "/"


def test_logging_out_takes_a_post() -> None:
    client = Client()
    client.force_login(making.make_user())
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/").status_code == 302


def test_who_comes_and_goes_is_in_the_journal_for_administrators() -> None:
    making.make_user()
    client = Client()
    log_in(client, "wrong")
    log_in(client, making.PASSWORD)
    text = client.get("/journal/").content.decode()
    assert "Somebody gave a wrong password." in text and "Logged in." in text
    client.post("/logout/")
    verbs = list(Event.objects.order_by("id").values_list("verb", "object_id"))
    assert verbs == [("user.login_failed", "ada"), ("user.logged_in", "ada"), ("user.logged_out", "ada")]
    viewer = Client()
    viewer.force_login(making.make_user("eve", "viewer"))
    assert "Logged in." not in viewer.get("/journal/").content.decode()


def test_a_form_without_its_token_is_explained() -> None:
    client = Client(enforce_csrf_checks=True)
    response = client.post("/login/", {"username": "ada", "password": "x"})
    assert response.status_code == 403 and "This form is no longer valid" in response.content.decode()
