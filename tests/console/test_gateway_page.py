"""The live page of the gateway: what is told is shown, what is not known is a dash, silence is said."""

from __future__ import annotations

import re

import pytest

from controlplane.accounts.models import User
from controlplane.console import gateway_page
from controlplane.domain.gateway_state import DeploymentState, LadderState, ReplicaState, TierState
from controlplane.lib import gateway_state, keys, valkey
from tests.console import making, making_traffic
from tests.console.calling import HX, make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def text_of(path: str = "/gateway/now/?deployment=llama-70b") -> str:
    """What a reader sees of a page, with single spaces."""
    user = User.objects.filter(username="test-viewer").first()
    html = make_client("viewer", user).get(path, headers=HX).content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_queues_waits_refusals_seats_and_slices_are_shown() -> None:
    making.make_fleet()
    making_traffic.tell("llama-70b", "smollm2")
    text = text_of()
    for told in (
        "Degraded, step 1 of 3", "41 / 1,024", "12.4 / 30", "2.29 / 64.0", "44 / 48",
        "171,000 / 180,224 tokens 91 % 17", "140,400 / 180,224 tokens – % –",
        "Would have waited too long Standard 3.40 941", "chatbot Standard 38 61,200 12.4", "done now Standard, Batch",
        "Answers have at most 512 tokens (all tiers)", "chatbot/daily", "1,204,000 / 5,000,000", "610.00 / 1,250.00",
        "a3f09c1d", "search/fair", "204",
    ):  # fmt: skip
        assert told in text, told
    assert "not heard" not in text


def test_what_is_not_known_is_a_dash() -> None:
    making.make_fleet()
    making_traffic.tell("llama-70b")
    assert "Batch 0 / 4,096" in text_of()
    assert "Batch 0 / 4,096 0 / 256 MiB – 0 /s 0.600 /s 310 77" in text_of(), "nobody waits: no oldest wait"
    assert "2,000" in text_of(), "a replica whose capacity nobody tells"


def test_a_silent_gateway_is_said_and_nothing_is_made_up() -> None:
    making.make_fleet()
    assert "No gateway is heard" in text_of("/gateway/")
    making_traffic.tell("llama-70b", gateway="old1", silent_s=8)
    text = text_of()
    assert re.search(r"Gateway old1 not heard for \d+ s\.", text) and "Silent" in text
    assert "44 / 48" in text, "what only it tells is shown as it was"
    making_traffic.tell("llama-70b", gateway="new1")
    assert "88 / 48" not in text_of(), "a silent gateway adds nothing to what another tells"


def test_valkey_being_away_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    making.make_fleet()
    monkeypatch.setenv("REDIS_URL", "unix:///nowhere/v.sock")
    for path in ("/gateway/", "/gateway/now/?deployment=llama-70b"):
        assert "Valkey can't be reached" in text_of(path), path
    assert make_client("operator").get("/traffic/shares/").status_code == 200


def test_a_deployment_that_nobody_tells_of_is_said() -> None:
    making.make_fleet()
    making_traffic.tell("llama-70b")
    assert "No gateway tells of smollm2." in text_of("/gateway/?deployment=smollm2")
    client = valkey.connect()
    client.delete(keys.gateway_state("a3f09c1d"))
    assert gateway_state.read(client) == []


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (DeploymentState("x"), "off"),
        (DeploymentState("x", replicas=(ReplicaState("r", 0, 8, 0, leaving=True),)), "off"),
        (DeploymentState("x", replicas=(ReplicaState("r", 0, 8, 0),)), "ready"),
        (DeploymentState("x", (TierState("batch", 1),), replicas=(ReplicaState("r", 0, 8, 0),)), "waiting"),
        (DeploymentState("x", replicas=(ReplicaState("r", 0, 8, 0),), ladder=LadderState(0, 1.2)), "warning"),
        (DeploymentState("x", replicas=(ReplicaState("r", 0, 8, 0),), ladder=LadderState(1, 0.9)), "degraded"),
    ],
)
def test_a_deployment_is_in_the_worst_state_that_is_true(state: DeploymentState, name: str) -> None:
    assert gateway_page.condition(state)[0] == name


def test_figures_have_their_unit_where_a_card_has_no_head() -> None:
    making.make_fleet()
    making_traffic.tell("llama-70b", "smollm2")
    page = make_client("viewer").get("/gateway/").content.decode()
    for unit, figure in (("MiB", "2.29"), ("s", "12.4"), ("tokens", "171,000"), ("tokens", "313,400")):
        shown = rf'{figure}<span class="unit"> / [^<]+</span> <span class="unit card-only">{unit}</span>'
        assert re.search(shown, page), figure
