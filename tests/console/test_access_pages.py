from __future__ import annotations

import re

import pytest

from controlplane.accounts.models import ApiKey, ApiToken, Tenant, User
from controlplane.lib import ids
from tests.console import making
from tests.console.calling import HX, make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def test_a_new_key_is_shown_once() -> None:
    making.make_tenant("search")
    client = make_client()
    response = client.post("/access/keys/new/", {"name": "ci", "tenant": "search", "valid_days": "30"}, headers=HX)
    secret = re.search(r"<pre[^>]*>(hw-[^<]+)</pre>", response.content.decode())
    key = ApiKey.objects.get(name="ci")
    assert secret is not None and key.key_hash == ids.secret_hash(secret[1]) and key.expires_at is not None
    assert response["Cache-Control"] == "no-store"
    assert secret[1] not in client.get("/access/keys/").content.decode()


def test_the_tier_of_a_new_key_is_chosen_in_its_form() -> None:
    client = make_client()
    making.make_tenant("search")
    form = client.get("/access/keys/new/", headers=HX).content.decode()
    assert '<option value="standard" selected>Standard</option>' in form and "&quot;tier&quot;: &quot;standard" in form
    client.post("/access/keys/new/", {"name": "night", "tenant": "search", "tier": "batch"}, headers=HX)
    assert ApiKey.objects.get(name="night").tier.tier == "batch"
    refused = client.post("/access/keys/new/", {"name": "odd", "tenant": "search", "tier": "gold"}, headers=HX)
    assert refused.status_code == 422 and "Use one of interactive, standard, batch." in refused.content.decode()
    assert not ApiKey.objects.filter(name="odd").exists()


def test_a_key_is_revoked_for_ever() -> None:
    key = making.make_key(making.make_tenant("search"))
    make_client().post(f"/access/keys/search/{key.pk}/do/revoke/", headers=HX)
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_tenant_is_made_and_a_used_one_is_not_removed() -> None:
    client = make_client()
    client.post("/access/tenants/new/", {"name": "search", "description": "x"}, headers=HX)
    making.make_key(Tenant.objects.get(name="search"))
    response = client.post("/access/tenants/search/do/delete/", headers=HX)
    assert response.status_code == 409 and "tenant_in_use" in response.content.decode()


def test_a_tenant_is_changed_unless_somebody_was_quicker() -> None:
    row = making.make_tenant("search")
    client = make_client()
    fields = {"description": "new words", "version": str(row.version)}
    assert client.post("/access/tenants/search/edit/", fields, headers=HX).status_code == 204
    assert Tenant.objects.get(name="search").description == "new words"
    assert client.post("/access/tenants/search/edit/", {**fields, "description": "x"}, headers=HX).status_code == 409


def test_a_menu_that_would_be_too_long_is_a_text_field() -> None:
    Tenant.objects.bulk_create(Tenant(name=f"t{number}") for number in range(201))
    text = make_client().get("/access/keys/new/", headers=HX).content.decode()
    assert "too many for a menu" in text and '<input id="f-tenant"' in text


def test_a_user_is_made_changed_and_removed() -> None:
    client = make_client()
    fields = {"username": "cy", "role": "viewer", "password": "long enough 1", "email": ""}
    assert client.post("/access/users/new/", fields, headers=HX).status_code == 204
    user = User.objects.get(username="cy")
    changed = {"role": "operator", "email": "cy@example.org", "version": str(user.version)}
    client.post("/access/users/cy/edit/", changed, headers=HX)
    user.refresh_from_db()
    assert (user.role, user.email, user.is_active) == ("operator", "cy@example.org", False)
    client.post("/access/users/cy/do/delete/", headers=HX)
    assert not User.objects.filter(username="cy").exists()


def test_a_weak_password_is_said_at_its_field() -> None:
    fields = {"username": "cy", "role": "viewer", "password": "short"}
    response = make_client().post("/access/users/new/", fields, headers=HX)
    assert response.status_code == 422 and 'id="f-password-problem"' in response.content.decode()


def test_the_last_administrator_stays() -> None:
    client = make_client()
    response = client.post("/access/users/test-administrator/do/delete/", headers=HX)
    assert response.status_code in (409, 422) and User.objects.filter(username="test-administrator").exists()


def test_a_token_is_made_and_revoked() -> None:
    client = make_client()
    fields = {"name": "ci", "user": "test-administrator", "role": "viewer", "valid_days": ""}
    assert "hwt-" in client.post("/access/tokens/new/", fields, headers=HX).content.decode()
    token = ApiToken.objects.get(name="ci")
    client.post(f"/access/tokens/{token.pk}/do/revoke/", headers=HX)
    token.refresh_from_db()
    assert (token.role, token.revoked_at is not None) == ("viewer", True)


def test_a_person_changes_their_own_password_and_stays_logged_in() -> None:
    user = making.make_user("bob", "viewer")
    client = make_client(user=user)
    wrong = {"current": "no", "new": "another one 1", "again": "another one 1"}
    assert client.post("/profile/password/", wrong, headers=HX).status_code == 422
    unequal = {"current": making.PASSWORD, "new": "another one 1", "again": "another"}
    assert client.post("/profile/password/", unequal, headers=HX).status_code == 422
    right = {"current": making.PASSWORD, "new": "another one 1", "again": "another one 1"}
    assert client.post("/profile/password/", right, headers=HX).status_code == 204
    assert client.get("/profile/").status_code == 200
