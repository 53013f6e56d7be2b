"""The machines that replicas go on: how many cards a node has and what a card costs."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.capacity.supply import Replica
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.hardware import MOST_CARDS_A_NODE, Hardware


@dataclass(frozen=True, slots=True)
class Site:
    """`price_per_hour` of one card; None = costs are left out."""

    cards_per_node: int = 8
    price_per_hour: float | None = None

    def check(self) -> None:
        """Raises RefusedError naming each field that can't be."""
        bounds = Bounds("capacity")
        bounds.count("cards_per_node", self.cards_per_node, 1, MOST_CARDS_A_NODE)
        bounds.optional("price_per_hour", self.price_per_hour, 0, 1e6)
        bounds.settle()

    def replicas_a_node(self, replica: Replica) -> int:
        """Replicas that one node holds; 0 where one replica spans nodes."""
        return 0 if replica.nodes > 1 else self.cards_per_node // replica.cards

    def nodes_a_replica(self, replica: Replica) -> int:
        """Nodes that one replica spans."""
        return max(replica.nodes, -(-replica.cards // self.cards_per_node))

    def lost_with_a_node(self, replica: Replica) -> int:
        """Replicas that are gone with the fullest node."""
        return max(1, self.replicas_a_node(replica))

    def nodes_for(self, replicas: int, replica: Replica) -> int:
        """Nodes that so many replicas take."""
        each = self.replicas_a_node(replica)
        return -(-replicas // each) if each else replicas * self.nodes_a_replica(replica)

    def room(self, nodes: int, replica: Replica) -> int:
        """Replicas that so many nodes hold."""
        each = self.replicas_a_node(replica)
        return nodes * each if each else nodes // self.nodes_a_replica(replica)


def of(hardware: Hardware) -> Site:
    """The site of a kind of node."""
    return Site(hardware.cards_per_node, hardware.price)
