"""Candidates that a placement passed over, on the pages of replicas and deployments."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from controlplane.console import passed_over
from controlplane.deployments.models import PassedOver
from controlplane.domain.rejections import CardsAt, Rejected
from tests.console import making
from tests.console.calling import make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]
REPLICA = "/replicas/7f3ak2m9q0xd/"


@pytest.fixture
def client() -> Client:
    making.make_fleet()
    return make_client("viewer")


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_every_name_is_on_the_page_the_later_ones_behind_a_disclosure(client: Client) -> None:
    page = client.get(REPLICA).content.decode()
    open_part = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert all(f"batch-{number:02}" in page for number in range(41))
    assert "batch-07" in open_part and "batch-08" not in open_part
    assert "41 nodes belongs to pool offline, not default" in text_of(page) and "Show 33 more" in page


def test_cards_are_named_with_their_node(client: Client) -> None:
    page = text_of(client.get(REPLICA).content.decode())
    assert "101 cards needs 72.8 GiB" in page and "gpu-02 (0–3,6) , gpu-04 (0–7)" in page
    assert "gpu-02 card 5 taken" in page


def test_names_that_an_earlier_version_did_not_keep_are_counted(client: Client) -> None:
    assert "7 nodes has no label rack=r2" in text_of(client.get(REPLICA).content.decode())
    (line,) = passed_over.lines([Rejected("is lost", ("a", "b"), more_nodes=5)])
    assert line.count == "7 nodes, 5 of them not named"


def test_one_candidate_stands_for_itself() -> None:
    lines = passed_over.lines([Rejected("x", ("a",)), Rejected("y", cards=(CardsAt((3,), ("b",)),))])
    assert [one.only for one in lines] == [passed_over.Candidate("a"), passed_over.Candidate("b", "3")]
    (pair,) = passed_over.lines([Rejected("y", cards=(CardsAt((3, 4), ("b",)),))])
    assert pair.only is None and pair.count == "2 cards"


def test_a_deployments_ledger_leads_to_all_of_them(client: Client) -> None:
    page = client.get("/deployments/llama-70b/ledger/").content.decode()
    assert f'<a href="{REPLICA}">33 more</a>' in page and "batch-30" not in page
    assert "151 candidates passed over" in page


def test_a_replica_for_which_nothing_was_passed_over_has_no_such_panel(client: Client) -> None:
    PassedOver.objects.all().delete()
    assert "Passed over" not in client.get(REPLICA).content.decode()
