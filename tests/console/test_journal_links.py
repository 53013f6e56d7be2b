"""The journal outlives its objects: what is gone is named, and not linked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.console import journal_links
from controlplane.deployments.models import Deployment
from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_usage import make_usage, numbers

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def make_rows() -> None:
    """Something of each kind twice: once of what is there, once of what is gone."""
    row = making.make_deployment("chat", variant=making.make_variant("llama"))
    making.make_replica(row, making.make_node("n1", cards=1), id="here")
    for kind, here, gone in (
        ("deployment", "chat", "old-chat"), ("replica", "here", "went"), ("node", "n1", "n2"),
        ("model", "llama", "bloom"), ("variant", "llama/bf16", "bloom/bf16"),
    ):  # fmt: skip
        for name in (here, gone):
            making.make_event(f"{kind}.failed", kind, name, "x", level="error")
            making.make_decision("restart", kind, name, "x")


@pytest.mark.parametrize("path", ["/", "/journal/", "/journal/decisions/"])
def test_every_link_of_the_journal_leads_somewhere(path: str) -> None:
    make_rows()
    client = make_client("administrator")
    text = client.get(path).content.decode()
    links = {part.split('"')[0] for part in text.split('href="')[1:]}
    objects = {link for link in links if link.startswith(("/deployments/", "/replicas/", "/nodes/", "/models/"))}
    wanted = {"/deployments/chat/", "/replicas/here/", "/nodes/n1/", "/models/llama/"}
    assert (wanted - {"/deployments/chat/", "/replicas/here/"} if path == "/" else wanted) <= objects  # it shows six
    assert {link: client.get(link).status_code for link in objects if client.get(link).status_code != 200} == {}
    assert "bloom" in text and "n2" in text


def test_a_successor_of_the_same_name_is_another_object() -> None:
    making.make_deployment("chat")
    old = making.make_event("deployment.removed", "deployment", "chat", "x", ago_s=60)
    new = making.make_event("deployment.changed", "deployment", "chat", "x", ago_s=10)
    Deployment.objects.update(created_at=timezone.now() - timedelta(seconds=30))
    assert [url for _row, url in journal_links.linked([old, new])] == ["", "/deployments/chat/"]


def test_a_new_deployment_has_nothing_of_its_predecessor_of_the_same_name() -> None:
    making.make_deployment("bridge", engine="external")
    made_at = timezone.now() - timedelta(minutes=10)
    Deployment.objects.update(created_at=made_at)
    for ago_s in (60, 3600):
        making.make_decision("restart", "deployment", "bridge", f"{ago_s} s ago", ago_s=ago_s)
        making.make_event(
            "replica.failed", "replica", "r", f"{ago_s} s ago", ago_s=ago_s, object_name="bridge/r", level="error"
        )
    for minutes_ago in (5, 50):
        make_usage(minutes_ago)
    client = make_client("viewer")
    marks = client.get("/deployments/bridge/marks/").json()["marks"]
    assert [mark["text"] for mark in marks if mark["kind"] != "revision"] == ["60 s ago", "60 s ago"]
    text = client.get("/deployments/bridge/").content.decode()
    assert numbers(text.split('id="usage-title"')[1])[0] == "1,200"
    assert f'data-begins="{made_at.timestamp():.12g}"' in text


@pytest.mark.parametrize(
    ("path", "title"), [("/deployments/none/", "Not found"), ("/access/users/new/", "Not allowed")]
)
def test_the_title_of_a_refusal_says_what_the_page_says(path: str, title: str) -> None:
    text = make_client("viewer").get(path).content.decode()
    assert f"<title>{title} · Headworks</title>" in text


def test_a_usage_says_what_counts_as_an_error() -> None:
    making.make_deployment("chat")
    text = make_client("viewer").get("/deployments/chat/").content.decode()
    assert "answers with a status of 500 or more" in text.split('id="usage-title"')[1]


def test_a_head_that_is_fetched_again_brings_the_number_of_replicas_along() -> None:
    making.make_replica(making.make_deployment("chat"), making.make_node("n", cards=1), state="starting")
    client = make_client("viewer")
    part = client.get("/deployments/chat/head/", headers=HX).content.decode()
    assert '<span class="tally" id="replicas-tally" hx-swap-oob="true">1</span>' in part
    assert "hx-swap-oob" not in client.get("/deployments/chat/").content.decode()
