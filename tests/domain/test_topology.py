from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.domain.topology import Topology, TopologyError, nvlinks


def make_topology(*rows: str, numa: tuple[int | None, ...] | None = None) -> Topology:
    links = tuple(tuple(None if word == "?" else word for word in row.split()) for row in rows)
    return Topology(links, numa or tuple(None for _ in rows))


def read(path: Path) -> tuple[Topology, dict[str, Any]]:
    data = json.loads(path.read_text())
    return Topology(tuple(tuple(row) for row in data["links"]), tuple(data["numa"])), data


def test_every_recorded_machine_is_a_sound_topology(shared_data: Path) -> None:
    files = sorted((shared_data / "inventory").glob("topo-*.json"))
    assert len(files) == 12
    for file in files:
        topology, data = read(file)
        topology.check_invariants()
        groups = topology.nvlink_groups()
        assert sorted(card for group in groups for card in group) == list(range(len(data["gpus"]))), file.name
        for group in groups:
            for i in group:
                assert all(i == j or nvlinks(topology.links[i][j]) for j in group), file.name


@pytest.mark.parametrize(
    ("file", "groups"),
    [
        ("topo-8x-h100-nv18.json", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("topo-8x-nv18-numa8.json", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("topo-2x-a100-nv12.json", ((0, 1),)),
        ("topo-4x-l40s-node-sys.json", ((0,), (1,), (2,), (3,))),
        ("topo-2x-rtx3090-phb.json", ((0,), (1,))),
    ],
)
def test_groups_joined_by_nvlink(shared_data: Path, file: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert read(shared_data / "inventory" / file)[0].nvlink_groups() == groups


def test_an_uneven_mesh_is_split_into_groups_in_which_all_are_joined(shared_data: Path) -> None:
    topology, _ = read(shared_data / "inventory" / "topo-8x-v100-nv1-nv2-sys.partial.json")
    assert topology.nvlink_groups()[0] == (0, 1, 2, 3)


def test_unknown_links_join_nothing() -> None:
    assert make_topology("X ?", "? X").nvlink_groups() == ((0,), (1,))


def test_nearer_is_smaller() -> None:
    topology = make_topology("X NV2 PIX SYS", "NV2 X NV1 ?", "PIX NV1 X NODE", "SYS ? NODE X")
    known = [topology.distance(*pair) for pair in ((0, 0), (0, 1), (1, 2), (0, 2), (2, 3), (0, 3))]
    assert known == sorted(known, key=lambda one: one or 0.0)
    assert topology.distance(1, 3) is None


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (("X NV1",), "1 rows need 1 columns"),
        (("X NV1", "NV2 X"), "0 to 1 is NV1, and back NV2"),
        (("X WIFI", "WIFI X"), "unknown kind of link 'WIFI'"),
        (("PIX PIX", "PIX X"), "the link of 0 and 0 is PIX"),
    ],
)
def test_a_matrix_that_can_not_be_is_refused(rows: tuple[str, ...], text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        make_topology(*rows).check_invariants()
