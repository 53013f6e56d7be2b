"""The memory ledger on the pages of deployments, replicas and nodes."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.console import ledger_rows, memory_parts
from controlplane.deployments.models import LedgerRow, Replica
from controlplane.fleet import selectors as fleet
from controlplane.fleet.models import Accelerator, Reservation
from tests.console import making
from tests.console.calling import make_client
from tests.console.making_ledgers import make_ledger

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]
GIB = 1024**3


@pytest.fixture
def client() -> Client:
    making.make_fleet()
    return make_client("viewer")


def text_of(client: Client, path: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", client.get(path).content.decode()))


def test_a_replica_shows_predicted_beside_measured_with_the_error(client: Client) -> None:
    page = text_of(client, "/replicas/7f3ak2m9q0xd/")
    assert re.search(r"KV cache GiB 52\.0 46\.9 −9\.8 %", page)
    assert "Corrected by 3 measured starts" in page and "3 starts" in page
    assert "needs 72.8 GiB, 6.3 of 79.2 free" in page


@pytest.mark.parametrize(("fits", "word"), [(True, "Fits"), (False, "Does not fit"), (None, "Not known")])
def test_a_verdict_begins_with_whether_it_fits(client: Client, fits: bool | None, word: str) -> None:
    row = LedgerRow.objects.get(replica="7f3ak2m9q0xd")
    row.predicted["fits"] = fits
    row.save()
    for path in ("/replicas/7f3ak2m9q0xd/", "/deployments/llama-70b/ledger/"):
        assert f"Verdict {word} 2.50 GiB for one request" in text_of(client, path), path


def test_a_replica_without_a_ledger_says_so(client: Client) -> None:
    LedgerRow.objects.all().delete()
    assert "Nothing was predicted of this start." in text_of(client, "/replicas/7f3ak2m9q0xd/")
    Replica.objects.filter(pk="7f3ak2m9q0xd").update(node=None)
    assert "It was not placed yet, so nothing was predicted." in text_of(client, "/replicas/7f3ak2m9q0xd/")


def test_a_ledger_that_could_not_be_worked_out_says_why(client: Client) -> None:
    LedgerRow.objects.filter(replica="7f3ak2m9q0xd").update(
        why_unknown="Only vLLM's memory is worked out.", predicted={}, measured={}, error={}, advice=[], correction={}
    )
    page = text_of(client, "/replicas/7f3ak2m9q0xd/")
    assert "Only vLLM" in page and "None; no start of this kind was measured before." in page


def test_the_tab_shows_living_replicas_and_a_hint_without_any(client: Client) -> None:
    page = text_of(client, "/deployments/llama-70b/ledger/")
    assert "7f3ak2m9q0xd" in page and "not measured yet" in page and "151 candidates passed over" in page
    assert "Nothing was predicted yet" in text_of(client, "/deployments/smollm2/ledger/")


def test_the_tab_takes_the_same_queries_for_many_replicas(client: Client) -> None:
    with CaptureQueriesContext(
        connection,
    ) as few:
        client.get("/deployments/llama-70b/ledger/")
    one = Replica.objects.get(pk="7f3ak2m9q0xd")
    for number in range(10):
        copy = making.make_replica(one.deployment, one.node, cards=[], id=f"more{number:08d}")
        make_ledger(copy)
    with CaptureQueriesContext(connection) as many:
        client.get("/deployments/llama-70b/ledger/")
    assert len(many) == len(few)


def test_a_node_shows_who_holds_what_of_a_card(client: Client) -> None:
    node = making.make_node("two", cards=0)
    card = making.make_card(node, 0)
    making.make_replica(Replica.objects.get(pk="7f3ak2m9q0xd").deployment, node, cards=[], id="held00000001")
    for owner, size in (("held00000001", 40), ("somebody", 20)):
        Reservation.objects.create(accelerator=card, owner_id=owner, memory_bytes=size * GIB)
    page = text_of(client, "/nodes/two/")
    assert "Reserved 60.0 / 80.0 GiB" in page
    assert "llama-70b held00000001 40.0" in page and "somebody 20.0" in page


def test_a_node_shows_predicted_beside_measured_for_each_card(client: Client) -> None:
    node = Replica.objects.get(pk="7f3ak2m9q0xd").node
    assert node is not None
    page = text_of(client, f"/nodes/{node.name}/")
    assert len(re.findall(r"KV cache GiB 52\.0 46\.9 −9\.8 %", page)) == 4, "once on each of its cards"


def test_what_an_engine_tells_is_of_one_accelerator_and_not_divided_by_them(client: Client) -> None:
    replica = Replica.objects.get(pk="7f3ak2m9q0xd")
    assert len(replica.assigned) > 1
    replica.facts = {"weights_bytes": 33 * GIB, "kv_cache_bytes": 35 * GIB}
    replica.save(update_fields=["facts"])
    card = Accelerator.objects.filter(reservations__owner_id=replica.pk).first()
    assert card is not None
    Accelerator.objects.filter(pk=card.pk).update(
        observed={**card.observed, "memory_total_bytes": 80 * GIB, "memory_used_bytes": 72 * GIB}
    )
    page = text_of(client, f"/nodes/{card.node.name}/")
    assert "Weights 33.0" in page and "Activations and graphs 4.00" in page


def test_the_parts_of_a_card_add_up_to_it(client: Client) -> None:
    for node in fleet.nodes():
        for shares in fleet.card_shares(node):
            parts = ledger_rows.holders(shares, {})
            if parts:
                assert sum(part.size_bytes for part in parts) == shares.total_bytes
                assert parts[-1].start + parts[-1].share == pytest.approx(1)


def test_an_overfull_stack_ends_before_its_parts_do() -> None:
    found = memory_parts.stack([("weights", 90), ("kv_cache", 30), ("unused", 0), ("nonsense", 5)], 80, 72)
    assert [part.kind for part in found.parts] == ["weights", "kv"]
    assert found.end == pytest.approx(80 / 120) and found.budget == pytest.approx(72 / 120)
    assert memory_parts.stack([], None).parts == ()


@pytest.mark.parametrize(
    ("fits", "starts", "word"),
    [
        (True, True, "Fits"), (False, True, "Does not fit"), (False, False, "Does not start"),
        (False, None, "Does not fit"), (None, True, "Not known"),
    ],
)  # fmt: skip
def test_a_verdict_begins_with_a_word(fits: bool | None, starts: bool | None, word: str) -> None:
    assert word in render_to_string("parts/fits.html", {"fits": fits, "starts": starts})
