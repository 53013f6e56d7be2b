"""How the cards of one node are wired: the matrix of links, the groups joined by NVLink, and NUMA."""

from __future__ import annotations

from dataclasses import dataclass

# Words of the driver for the best path between two cards, nearest first; NV<n> (n NVLinks) is nearer than any.
PCIE_PATHS: tuple[str, ...] = ("PIX", "PXB", "PHB", "NODE", "SYS")
SELF = "X"


class TopologyError(ValueError):
    """A matrix that can't be one: not square, not symmetric, or with an unknown word."""


@dataclass(frozen=True, slots=True)
class Topology:
    """`links[i][j]` is `X` for a card itself, `NV<n>`, a word of `PCIE_PATHS`, or None where nobody knows.

    `numa[i]` is the NUMA node of card i, None = unknown.
    """

    links: tuple[tuple[str | None, ...], ...]
    numa: tuple[int | None, ...]

    def check_invariants(self) -> None:
        """Raises TopologyError when the matrix is not square and symmetric or holds an unknown word."""
        size = len(self.links)
        if len(self.numa) != size or any(len(row) != size for row in self.links):
            raise TopologyError(f"{size} rows need {size} columns and {size} NUMA nodes")
        for i, row in enumerate(self.links):
            for j, link in enumerate(row):
                if (link == SELF) != (i == j):
                    raise TopologyError(f"the link of {i} and {j} is {link}")
                if link != self.links[j][i]:
                    raise TopologyError(f"{i} to {j} is {link}, and back {self.links[j][i]}")
                if link not in (None, SELF, *PCIE_PATHS) and nvlinks(link) == 0:
                    raise TopologyError(f"unknown kind of link {link!r}")

    def nvlink_groups(self) -> tuple[tuple[int, ...], ...]:
        """Returns the groups of cards in which every two are joined directly by NVLink, largest first.

        A card without NVLink is a group of its own. Where the mesh is uneven (as in an eight-card V100 machine) the
        groups are found greedily from the lowest index, so each card is in exactly one; unknown links join nothing.
        """
        left = list(range(len(self.links)))
        groups: list[tuple[int, ...]] = []
        while left:
            group: list[int] = []
            for card in left:
                if all(nvlinks(self.links[card][one]) > 0 for one in group):
                    group.append(card)
            groups.append(tuple(group))
            left = [j for j in left if j not in group]
        return tuple(sorted(groups, key=lambda group: (-len(group), group)))

    def distance(self, i: int, j: int) -> float | None:
        """Returns how far two cards are: 0 for the same, below 1 by NVLink (more links are nearer), then 1 to 5 by
        the PCIe path; None where the link is unknown."""
        link = self.links[i][j]
        if link is None:
            return None
        if link == SELF:
            return 0.0
        count = nvlinks(link)
        return 1.0 / (1 + count) if count else 1.0 + PCIE_PATHS.index(link)


def nvlinks(link: str | None) -> int:
    """Returns the number of NVLinks of a word such as `NV18`, 0 for any other."""
    if link is None or not link.startswith("NV") or not link[2:].isdigit():
        return 0
    return int(link[2:])
