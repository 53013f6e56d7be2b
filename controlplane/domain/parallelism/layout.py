"""How copies lie on nodes: how many there are, which cards stay idle, and how often a token crosses the network.

A tensor-parallel group lies in one node (or in one fabric that spans nodes); stages of a pipeline fill a node before
they go on to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.parallelism.hardware import Hardware
from controlplane.domain.parallelism.split import Split


@dataclass(frozen=True, slots=True)
class Layout:
    """`copies_a_node` is 0 where a copy spans nodes; `crossings` are hand-overs between nodes in one copy."""

    copies: int
    copies_a_node: int
    nodes_a_copy: int
    crossings: int
    idle_cards: int


def lie(split: Split, hardware: Hardware) -> Layout:
    """The layout of as many copies as there is room for; no copies where a group does not fit."""
    room = hardware.cards_per_node
    if split.ranks > room:  # one fabric over several nodes
        nodes_a_copy = -(-split.cards // room)
        copies = hardware.nodes // nodes_a_copy
        return Layout(copies, 0, nodes_a_copy, split.pipeline - 1, hardware.cards - copies * split.cards)
    groups = room // split.ranks
    if split.pipeline <= groups:
        each = groups // split.pipeline
        copies = hardware.nodes * each
        return Layout(copies, each, 1, 0, hardware.cards - copies * split.cards)
    nodes_a_copy = -(-split.pipeline // groups)
    copies = hardware.nodes // nodes_a_copy
    return Layout(copies, 0, nodes_a_copy, nodes_a_copy - 1, hardware.cards - copies * split.cards)
