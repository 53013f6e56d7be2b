from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.accounts.models import ApiToken, Role, User
from controlplane.accounts.services import keys, tenants, tokens
from controlplane.api import permissions
from controlplane.journal.services.record import SYSTEM
from tests.api.calling import error, make_client, make_secret, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.services]
ME = "/api/v1/me/"


def get(secret: str, url: str = ME) -> int:
    return APIClient().get(url, headers={"Authorization": f"Bearer {secret}"}).status_code


def test_without_a_token_it_is_401_and_says_what_to_send() -> None:
    answer = APIClient().get(ME)
    assert (answer.status_code, error(answer)["code"]) == (401, "not_authenticated")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="headworks"'


@pytest.mark.parametrize("secret", ["", "x", "hwt-wrong", "é", "a" * 5000, "a b", "\x00"])
def test_a_token_that_is_not_one_is_401(secret: str) -> None:
    answer = APIClient().get(ME, headers={"Authorization": f"Bearer {secret}"})
    assert (answer.status_code, error(answer)["code"]) == (401, "not_authenticated")


def test_a_key_of_the_gateway_is_told_apart() -> None:
    tenants.apply(actor=SYSTEM, name="demo")
    secret = keys.create(actor=SYSTEM, tenant="demo", name="app")[1]
    answer = APIClient().get(ME, headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 401
    assert "gateway" in error(answer)["message"]


def test_a_revoked_token_is_401() -> None:
    secret = make_secret()
    assert get(secret) == 200
    tokens.revoke(actor=SYSTEM, token_id=ApiToken.objects.get().pk)
    assert get(secret) == 401


def test_an_expired_token_is_401() -> None:
    secret = make_secret(expires_at=timezone.now() + timedelta(hours=1))
    assert get(secret) == 200
    ApiToken.objects.update(expires_at=timezone.now())
    assert get(secret) == 401


def test_a_token_of_somebody_who_left_is_401() -> None:
    secret = make_secret()
    User.objects.update(is_active=False)
    assert get(secret) == 401


def test_the_use_of_a_token_is_remembered_at_most_once_a_minute() -> None:
    secret = make_secret()
    now = timezone.now()
    for seconds in (0, 30, 59):
        tokens.recognise(secret, now + timedelta(seconds=seconds))
        assert ApiToken.objects.get().last_used_at == now
    later = now + timedelta(seconds=61)
    tokens.recognise(secret, later)
    assert ApiToken.objects.get().last_used_at == later


def test_a_token_never_allows_more_than_its_own_role() -> None:
    secret = make_secret("administrator", role="viewer")
    assert get(secret) == 200
    assert get(secret, "/api/v1/users/") == 403


def test_a_token_never_allows_more_than_its_user_may_now() -> None:
    secret = make_secret("administrator")
    assert get(secret, "/api/v1/users/") == 200
    User.objects.update(role="viewer")
    assert get(secret, "/api/v1/users/") == 403
    answer = APIClient().get(ME, headers={"Authorization": f"Bearer {secret}"})
    assert answer.json() == {"username": "administrator-1", "role": "viewer", "token": "test"}


def test_a_forbidden_request_is_403_in_the_same_shape() -> None:
    answer = make_client("viewer").delete("/api/v1/pools/default/")
    assert (answer.status_code, error(answer)["code"]) == (403, "forbidden")


def test_a_session_may_read_and_needs_the_csrf_token_to_write() -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    assert client.get(ME).json()["token"] is None
    answer = client.put("/api/v1/pools/p1/", {})
    assert answer.status_code == 403
    assert "CSRF" in error(answer)["message"]


def test_roles_are_the_ones_of_accounts() -> None:
    assert set(permissions.RoleName.__args__) == set(Role.values)  # type: ignore[attr-defined]
