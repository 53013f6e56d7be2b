from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.accounts.models import ApiKey, ApiToken, User
from controlplane.journal.models import Event
from controlplane.lib.ids import secret_hash
from tests.api.calling import error
from tests.deployments.making import make_deployment

pytestmark = [pytest.mark.django_db, pytest.mark.services]
USER = "/api/v1/users/bob/"
KEYS = "/api/v1/tenants/demo/keys/"


def test_a_user_is_made_changed_and_removed(administrator: APIClient) -> None:
    body = {"role": "operator", "email": "bob@example.com", "password": "a long password 9"}
    assert administrator.put(USER, body).status_code == 201
    again = administrator.put(USER, body)
    assert (again.status_code, again.headers["X-Headworks-Changed"]) == (200, "false")
    without = {"role": "operator", "email": "bob@example.com"}
    assert administrator.put(USER, without).headers["X-Headworks-Changed"] == "false"
    assert administrator.put(USER, {**without, "is_active": False}).json()["is_active"] is False
    assert User.objects.get(username="bob").check_password("a long password 9")
    assert administrator.delete(USER).status_code == 204
    verbs = list(Event.objects.filter(object_kind="user").order_by("id").values_list("verb", flat=True))
    assert verbs == ["user.created", "user.changed", "user.deleted"]


@pytest.mark.parametrize("password", [None, "", "short", "password123456", 7])
def test_a_password_that_is_too_weak_is_refused(administrator: APIClient, password: object) -> None:
    answer = administrator.put(USER, {"password": password if password != "password123456" else "1234567890"})
    assert answer.status_code == 400
    assert "password" in error(answer)["details"]["fields"]


@pytest.mark.parametrize("change", [{"role": "operator"}, {"role": "administrator", "is_active": False}])
def test_the_last_administrator_stays(administrator: APIClient, change: dict[str, object]) -> None:
    url = "/api/v1/users/administrator-1/"
    assert error(administrator.put(url, change))["code"] == "last_administrator"
    assert error(administrator.delete(url))["code"] == "last_administrator"
    administrator.put(USER, {"role": "administrator", "password": "a long password 9"})
    assert administrator.put(url, change).status_code == 200


def test_a_token_is_shown_once_and_then_only_its_beginning(administrator: APIClient) -> None:
    made = administrator.post("/api/v1/tokens/", {"user": "administrator-1", "name": "ci", "role": "viewer"})
    assert made.status_code == 201
    assert made.headers["Cache-Control"] == "no-store"
    secret, token = made.json()["secret"], made.json()["token"]
    assert ApiToken.objects.get(pk=token["id"]).token_hash == secret_hash(secret)
    assert secret not in administrator.get("/api/v1/tokens/").content.decode()
    assert secret.startswith(token["prefix"])
    assert APIClient().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).json()["role"] == "viewer"
    url = f"/api/v1/tokens/{token['id']}/"
    assert administrator.delete(url).json()["revoked_at"]
    assert administrator.delete(url).json() == administrator.get(url).json()
    assert Event.objects.filter(verb="token.revoked").count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"user": "nobody", "name": "x"}, "user"),
        ({"user": "administrator-1", "name": " "}, "name"),
        ({"user": "administrator-1", "name": "x", "role": "god"}, "role"),
        ({"user": "administrator-1", "name": "x", "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"user": "administrator-1", "name": "x", "expires_at": 7}, "expires_at"),
    ],
)
def test_a_wrong_field_of_a_token_is_named(administrator: APIClient, body: dict[str, object], field: str) -> None:
    assert field in error(administrator.post("/api/v1/tokens/", body))["details"]["fields"]


def test_a_token_can_not_have_more_than_its_user(administrator: APIClient) -> None:
    administrator.put(USER, {"role": "viewer", "password": "a long password 9"})
    answer = administrator.post("/api/v1/tokens/", {"user": "bob", "name": "x", "role": "operator"})
    assert "role" in error(answer)["details"]["fields"]


def test_a_tenant_and_its_key(administrator: APIClient) -> None:
    assert administrator.put("/api/v1/tenants/demo/", {"description": "The demo"}).status_code == 201
    again = administrator.put("/api/v1/tenants/demo/", {"description": "The demo"})
    assert again.headers["X-Headworks-Changed"] == "false"
    make_deployment()
    made = administrator.post(KEYS, {"name": "app", "deployments": ["chat"]})
    assert made.status_code == 201
    assert ApiKey.objects.get().key_hash == secret_hash(made.json()["secret"])
    assert made.json()["secret"] not in administrator.get(KEYS).content.decode()
    assert administrator.get("/api/v1/tenants/demo/").json()["keys_usable"] == 1


def test_a_key_has_its_tier_from_the_first_request_on(administrator: APIClient) -> None:
    administrator.put("/api/v1/tenants/demo/", {})
    made = administrator.post(KEYS, {"name": "night", "tier": "batch"})
    key = made.json()["key"]
    assert (made.status_code, key["tier"]) == (201, "batch")
    assert administrator.get(f"{KEYS}{key['id']}/tier/").json()["tier"] == "batch"
    assert administrator.post(KEYS, {"name": "app"}).json()["key"]["tier"] == "standard"
    assert [row["tier"] for row in administrator.get(KEYS).json()["results"]] == ["batch", "standard"]


def test_no_key_is_made_for_a_tier_that_there_is_not(administrator: APIClient) -> None:
    administrator.put("/api/v1/tenants/demo/", {})
    assert "tier" in error(administrator.post(KEYS, {"name": "app", "tier": "gold"}))["details"]["fields"]
    assert not ApiKey.objects.exists()


def test_a_key_for_deployments_that_are_not_there_is_refused(administrator: APIClient) -> None:
    administrator.put("/api/v1/tenants/demo/", {})
    make_deployment()
    answer = administrator.post(KEYS, {"name": "app", "deployments": ["nope", "chat", "gone"]})
    assert (answer.status_code, error(answer)["details"]["fields"]["deployments"]) == (
        400,
        "There is no deployment gone, nope.",
    )
    assert not ApiKey.objects.exists()


def test_the_keys_of_all_tenants_are_listed_and_filtered(administrator: APIClient, viewer: APIClient) -> None:
    for tenant in ("shop", "team"):
        administrator.put(f"/api/v1/tenants/{tenant}/", {})
        for name in ("old", "new"):
            made = administrator.post(f"/api/v1/tenants/{tenant}/keys/", {"name": name}).json()["key"]
        administrator.delete(f"/api/v1/tenants/{tenant}/keys/{made['id']}/")

    def names(**query: str) -> list[tuple[str, str]]:
        return [(row["tenant"], row["name"]) for row in viewer.get("/api/v1/api-keys/", query).json()["results"]]

    assert names() == [("shop", "old"), ("shop", "new"), ("team", "old"), ("team", "new")]
    assert names(tenant="team") == [("team", "old"), ("team", "new")]
    assert names(usable="true") == [("shop", "old"), ("team", "old")]


def test_a_tenant_with_keys_is_not_removed(administrator: APIClient) -> None:
    administrator.put("/api/v1/tenants/demo/", {})
    key = administrator.post(KEYS, {"name": "app"}).json()["key"]
    assert "app" in error(administrator.delete("/api/v1/tenants/demo/"))["message"]
    assert administrator.delete(f"{KEYS}{key['id']}/").json()["revoked_at"]
    assert administrator.delete("/api/v1/tenants/demo/").status_code == 204


def test_a_key_of_another_tenant_is_not_found(administrator: APIClient) -> None:
    administrator.put("/api/v1/tenants/demo/", {})
    administrator.put("/api/v1/tenants/other/", {})
    key = administrator.post(KEYS, {"name": "app"}).json()["key"]
    assert administrator.get(f"/api/v1/tenants/other/keys/{key['id']}/").status_code == 404
    assert administrator.delete(f"/api/v1/tenants/other/keys/{key['id']}/").status_code == 404


def test_an_absurd_id_is_not_found(administrator: APIClient) -> None:
    assert administrator.get(f"/api/v1/tokens/{'9' * 18}/").status_code == 404
    assert administrator.get(f"/api/v1/tokens/{'9' * 400}/").status_code == 404


def test_one_changes_ones_own_password(viewer: APIClient) -> None:
    url = "/api/v1/me/password/"
    wrong = viewer.post(url, {"current": "wrong", "new": "another password 1"})
    assert "current" in error(wrong)["details"]["fields"]
    weak = viewer.post(url, {"current": "correct horse 7", "new": "1234567890"})
    assert "new" in error(weak)["details"]["fields"]
    assert viewer.post(url, {"current": "correct horse 7", "new": "another password 1"}).status_code == 204
    assert User.objects.get(username="viewer-1").check_password("another password 1")
