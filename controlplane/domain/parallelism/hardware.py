"""The cards that a model may be split over: nodes that are alike, and how their cards are joined."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controlplane.domain.footprint.cards import Card
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.specs import accelerator_rows
from controlplane.domain.specs.accelerator import AcceleratorFacts

MOST_NODES = 100_000
MOST_CARDS_A_NODE = 128
BRIDGE_CARDS = 2  # a fabric of so many cards is a bridge, which most machines do without
USUAL_NETWORK_BYTES_PER_S = 12.5e9  # 100 Gb/s, where the network between nodes is not known
_FABRIC = 3  # least size of a fabric that is not a bridge


@dataclass(frozen=True, slots=True)
class Hardware:
    """`nodes` machines with `cards_per_node` cards of one kind.

    `link_group`: cards that NVLink (or a like fabric) joins directly; 1 = PCIe alone; None = what is usual for the
    card: its fabric where it has one of more than two cards. `network_bytes_per_s` between nodes, one direction.
    `price_per_hour` of one card, in any one currency; None = the card's typical rent. `total_bytes` is what the driver
    reports, where it was seen.
    """

    accelerator: AcceleratorFacts
    cards_per_node: int
    nodes: int = 1
    link_group: int | None = None
    network_bytes_per_s: float | None = None
    price_per_hour: float | None = None
    total_bytes: int | None = None

    @property
    def cards(self) -> int:
        """Cards of all nodes together."""
        return self.nodes * self.cards_per_node

    @property
    def joined(self) -> int:
        """Cards that a fabric joins; 1 where they have PCIe alone. More than a node's cards in a rack with one."""
        if self.link_group is not None:
            return max(1, self.link_group)
        group = self.accelerator.link_group or 1
        return group if group > BRIDGE_CARDS and self.accelerator.link_bytes_per_s else 1

    @property
    def price(self) -> float | None:
        """Of one card an hour; None where nobody says it."""
        return self.accelerator.cost_per_hour if self.price_per_hour is None else self.price_per_hour

    @property
    def card(self) -> Card:
        """The card as the ledger takes it."""
        facts = self.accelerator
        total = accelerator_rows.usable_bytes(facts) if self.total_bytes is None else self.total_bytes
        note = "" if self.total_bytes is not None else f"{total / 2**30:.2f} GiB of memory were taken for {facts.name}."
        return Card(facts.name, total, facts, facts.unified_memory, note)

    def assumptions(self) -> tuple[str, ...]:
        """What was taken because it was not given."""
        found = []
        facts = self.accelerator
        if self.link_group is None and (facts.link_group or 1) == BRIDGE_CARDS and self.cards_per_node > 1:
            found.append(f"Whether bridges join pairs of {facts.name} is not given; PCIe alone was taken.")
        if self.nodes > 1 and self.network_bytes_per_s is None:
            found.append("The network between nodes is not given; 100 Gb/s was taken.")
        if self.price_per_hour is None and facts.cost_per_hour is not None:
            found.append(f"A card's price is not given; {facts.cost_per_hour:g} an hour was taken, a typical rent.")
        return tuple(found)

    def check(self) -> None:
        """Raises RefusedError naming each field that can't be."""
        bounds = Bounds("hardware")
        bounds.count("cards_per_node", self.cards_per_node, 1, MOST_CARDS_A_NODE)
        bounds.count("nodes", self.nodes, 1, MOST_NODES)
        if self.link_group is not None:
            bounds.count("link_group", self.link_group, 1, 4096)
        bounds.optional("network_bytes_per_s", self.network_bytes_per_s, 1e6, 1e14)
        bounds.optional("price_per_hour", self.price_per_hour, 0, 1e6)
        bounds.optional("total_bytes", self.total_bytes, 2**28, 2**50)
        bounds.settle()

    def seen_by(self, ranks: int) -> AcceleratorFacts:
        """The card with the link that so many ranks of tensor parallelism really have between them.

        The latency model takes bridges (groups of two) for absent, since most machines lack them; here it is known.
        """
        if self.accelerator.link_bytes_per_s and 1 < ranks <= self.joined:
            return replace(self.accelerator, link_group=max(_FABRIC, self.joined))
        return replace(self.accelerator, link_group=None)
