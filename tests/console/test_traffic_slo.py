"""The objective of a deployment on its page: set, changed, removed, taken back."""

from __future__ import annotations

import pytest

from controlplane.traffic.models import Slo
from tests.console import making
from tests.console.calling import make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services]
EDIT = "/traffic/deployments/smollm2/slo/edit/"
PAGE = "/deployments/smollm2/traffic/"


def test_an_objective_is_set_and_shown_in_the_units_that_people_write() -> None:
    making.make_fleet()
    client = make_client("operator")
    assert "requests wait as long as their tier allows" in client.get(PAGE).content.decode()
    assert client.post(EDIT, {"ttft_s": "1.5", "tpot_s": "80"}, follow=True).status_code == 200
    row = Slo.objects.get(deployment__name="smollm2")
    assert (row.ttft_s, row.tpot_s) == (1.5, 0.08)
    shown = client.get(PAGE).content.decode()
    found = shown[shown.index("Time to first token") :][:300]
    assert "<dd>1.50 s</dd>" in found and "<dd>80.0 ms</dd>" in found, found


def test_half_an_objective_is_enough_and_nonsense_names_its_field() -> None:
    making.make_fleet()
    client = make_client("operator")
    client.post(EDIT, {"ttft_s": "2", "tpot_s": ""})
    assert Slo.objects.get(deployment__name="smollm2").tpot_s is None
    answer = client.post(EDIT, {"ttft_s": "-2", "tpot_s": "", "version": "1"})
    assert "Give a number from 0.001" in answer.content.decode()


def test_a_removed_objective_promises_nothing() -> None:
    making.make_fleet()
    client = make_client("operator")
    client.post(EDIT, {"ttft_s": "2", "tpot_s": "50"})
    client.post("/traffic/deployments/smollm2/slo/do/delete/", {"version": "1"})
    assert not Slo.objects.filter(deployment__name="smollm2").exists()
