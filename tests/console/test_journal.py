"""The journal's pages stand whatever its rows are about: objects gone, kinds unknown, addresses of no page."""

from __future__ import annotations

import pytest

from controlplane.catalog.services.models import ModelWish, VariantWish, apply_model, apply_variant
from controlplane.console.frame import object_url
from controlplane.journal.services import record
from tests.console import making
from tests.console.calling import make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

PATHS = ("/", "/overview/parts/recent/", "/journal/", "/journal/decisions/")
ODD = ("", "/", "a/b/c", "é", "../x", "gone", "a b", "%2F", "do")


@pytest.mark.parametrize(
    ("kind", "address", "page"),
    [
        ("deployment", "chat", "/deployments/chat/"),
        ("replica", "7f3ak2m9q0xd", "/replicas/7f3ak2m9q0xd/"),
        ("node", "gpu-01.example.org", "/nodes/gpu-01.example.org/"),
        ("model", "Qwen2.5-7B", "/models/Qwen2.5-7B/"),
        ("model", "Qwen2.5-7B/bf16", "/models/Qwen2.5-7B/"),
        ("variant", "Qwen2.5-7B/bf16", "/models/Qwen2.5-7B/"),
        ("user", "ada", "/access/users/"),
        ("api_key", "7", "/access/keys/"),
        ("pool", "default", ""),
        ("system", "controller", ""),
        ("comet", "67p", ""),
        ("deployment", "no slug/here", ""),
        ("node", "", ""),
    ],
)
def test_an_object_of_the_journal_is_linked_where_it_has_a_page(kind: str, address: str, page: str) -> None:
    assert object_url(kind, address) == page


def test_no_row_breaks_a_page() -> None:
    kinds = ("deployment", "replica", "node", "pool", "model", "variant", "tenant", "api_key", "user", "comet", "")
    for kind in kinds:
        for address in ODD:
            making.make_event("odd", kind, address, "Odd.", ago_s=1)
            making.make_decision("odd", kind, address, "Odd.", ago_s=1)
    client = make_client()
    assert [client.get(path).status_code for path in PATHS] == [200] * len(PATHS)


def test_what_happened_to_accounts_is_for_administrators() -> None:
    for kind in ("user", "token", "api_key"):
        making.make_event("odd", kind, "ada", f"About a {kind}.", actor="grace")
    making.make_event("odd", "tenant", "demo", "About a tenant.")
    for role, shown in (("viewer", False), ("operator", False), ("administrator", True)):
        text = make_client(role).get("/journal/").content.decode()
        assert "About a tenant." in text
        assert [found in text for found in ("About a user.", "About a token.", "About a api_key.", "grace")] == [
            shown
        ] * 4


def test_a_new_variant_is_told_as_a_variant_and_leads_to_its_model() -> None:
    apply_model(actor=record.SYSTEM, name="Qwen2.5-7B", wish=ModelWish())
    apply_variant(actor=record.SYSTEM, model="Qwen2.5-7B", name="bf16", wish=VariantWish(path="/models/q"))
    text = make_client().get("/journal/?kind=variant").content.decode()
    assert "variant.created" in text and "model.created" not in text
    assert 'href="/models/Qwen2.5-7B/"' in text
