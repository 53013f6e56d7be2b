from __future__ import annotations

import pytest

from controlplane.deployments.planner import answers
from controlplane.deployments.planner.inputs import Inputs
from controlplane.deployments.services import fleet_cards
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.fleet.services import nodes
from tests.deployments.making import ADA, make_deployment, make_node, make_replica

pytestmark = [pytest.mark.services, pytest.mark.django_db]

DRIVER_NAME = "NVIDIA H100 80GB HBM3"


def make_cards(name: str, price: float | None = None) -> Node:
    node = make_node(name, cards=2, kind="gpu")
    Accelerator.objects.filter(node=node).update(name=DRIVER_NAME)
    if price is not None:
        nodes.price(actor=ADA, name=name, card_price_per_hour=price)
    return node


def make_inputs(**changes: object) -> Inputs:
    return Inputs(model="Llama-3.1-8B-Instruct", gpu="H100 80GB", **changes)  # type: ignore[arg-type]


def test_the_mean_price_of_nodes_with_such_cards_is_taken_and_told() -> None:
    make_cards("n1", 2.0)
    make_cards("n2", 4.0)
    make_cards("n3")
    make_node("n4", cards=1, kind="gpu")
    answer = answers.estimate(make_inputs())
    assert answer.question.hardware.price == 3.0
    assert any("3 an hour was taken, the mean of 2 nodes" in one for one in answer.assumptions)
    given = answers.estimate(make_inputs(price_per_hour=1.0))
    assert given.question.hardware.price == 1.0
    assert not any("an hour was taken" in one for one in given.assumptions)


def test_without_a_price_of_theirs_a_typical_rent_is_taken() -> None:
    make_cards("n1")
    assert fleet_cards.of_make("nothing like it") == fleet_cards.Standing()
    answer = answers.estimate(make_inputs())
    assert any("a typical rent" in one for one in answer.assumptions)


def test_engines_that_start_on_such_cards_are_advice() -> None:
    node = make_cards("n1")
    row = make_replica(make_deployment(), node=node, state="starting")
    Reservation.objects.create(accelerator=node.accelerators.all()[0], owner_id=row.pk)
    found = answers.estimate(make_inputs()).ledger.advice
    (told,) = [one.sentence for one in found if one.code == "two_starts_on_one_card"]
    assert f"on 1 of 2 cards of this make, such as replica {row.pk} of" in told


def make_versions(*versions: str | None) -> None:
    for number, version in enumerate(versions):
        node = make_cards(f"v{number}")
        Node.objects.filter(pk=node.pk).update(engines={"vllm": version})


@pytest.mark.parametrize(
    ("versions", "taken"),
    [
        (["0.20.1"], (0, 20, 1)), (["0.20.1", "0.31.0", "0.20.1"], (0, 20, 1)), (["0.20.1", "0.31.0"], (0, 31, 0)),
        ([None, "0.20.1"], (0, 20, 1)), (["a fork"], (0, 32, 0)), ([], (0, 32, 0)),
    ],
)  # fmt: skip
def test_the_version_of_most_nodes_with_such_cards_is_planned_for(
    versions: list[str | None], taken: tuple[int, int, int]
) -> None:
    make_versions(*versions)
    answer = answers.estimate(make_inputs())
    assert answer.question.rules.version == taken
    told = [line for line in answer.assumptions if "vllm_version is not given" in line]
    assert len(told) == 1 and ("which most nodes" in told[0]) == (taken != (0, 32, 0))
    assert answers.estimate(make_inputs(vllm_version="0.18")).question.rules.version == (0, 18, 0)
