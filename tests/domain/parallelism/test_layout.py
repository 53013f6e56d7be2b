"""How copies lie on nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.parallelism import layout
from controlplane.domain.parallelism.split import Split
from tests.domain.parallelism.questions import make_hardware


@pytest.mark.parametrize(
    ("tensor", "pipeline", "nodes", "expected"),
    [
        (1, 1, 1, (8, 0, 0)),
        (4, 1, 1, (2, 0, 0)),
        (3, 1, 1, (2, 0, 2)),
        (4, 2, 1, (1, 0, 0)),
        (8, 2, 2, (1, 1, 0)),
        (8, 2, 3, (1, 1, 8)),
        (2, 8, 4, (2, 1, 0)),
        (3, 5, 3, (1, 2, 9)),
    ],
)
def test_groups_stay_in_a_node_and_stages_fill_it_first(
    tensor: int, pipeline: int, nodes: int, expected: tuple[int, int, int]
) -> None:
    found = layout.lie(Split(tensor, pipeline), make_hardware(nodes=nodes))
    assert (found.copies, found.crossings, found.idle_cards) == expected


def test_a_fabric_over_nodes_carries_a_group_over_nodes() -> None:
    found = layout.lie(Split(8), make_hardware("GB200", cards_per_node=4, nodes=4))
    assert (found.copies, found.nodes_a_copy, found.crossings) == (2, 2, 0)


@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 9), st.integers(1, 6))
def test_no_card_is_used_twice(tensor: int, pipeline: int, cards_per_node: int, nodes: int) -> None:
    split = Split(tensor, pipeline)
    hardware = make_hardware(cards_per_node=cards_per_node, nodes=nodes)
    found = layout.lie(split, hardware)
    assert found.copies * split.cards + found.idle_cards == hardware.cards
    assert found.idle_cards >= 0


@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 9), st.integers(1, 6))
def test_more_nodes_never_hold_fewer_copies(tensor: int, pipeline: int, cards_per_node: int, nodes: int) -> None:
    split = Split(tensor, pipeline)
    fewer = layout.lie(split, make_hardware(cards_per_node=cards_per_node, nodes=nodes))
    more = layout.lie(split, make_hardware(cards_per_node=cards_per_node, nodes=nodes + 1))
    assert more.copies >= fewer.copies
