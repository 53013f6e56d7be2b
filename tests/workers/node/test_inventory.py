from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from controlplane.domain.observed import AcceleratorObserved, ForeignProcess, ReplicaUse
from controlplane.domain.topology import nvlinks
from tests.workers.node.recordings import MIB, RecordedDriver, make_reading, read
from workers.node import inventory, inventory_cards
from workers.node.inventory_cards import CardProcess, CardReading
from workers.node.inventory_nvml import Driver

MACHINES = [
    "8x-v100s-pcie-32gb.json",
    "a100-sxm4-80gb-mig.json",
    "a10g.json",
    "dual-rtx-2080.json",
    "dual-rtx-a5000.json",
    "mig-a100-80gb-pcie-x2.partial.json",
    "mig-a100-sxm4-80gb-x4.partial.json",
    "mig-h100-pcie-in-container.partial.json",
    "rtx-3090.json",
    "rtx-4000-sff-ada.json",
    "rtx-pro-6000-blackwell-maxq.json",
    "tesla-t4.json",
]


def observe_file(folder: Path, name: str, own: Mapping[int, str] = MappingProxyType({})) -> list[AcceleratorObserved]:
    return [inventory_cards.observe(make_reading(card), own) for card in read(folder / "inventory" / name)]


def test_every_recorded_machine_is_listed(shared_data: Path) -> None:
    found = {path.name for path in (shared_data / "inventory").glob("*.json") if not path.name.startswith("topo-")}
    assert found == set(MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_what_the_driver_says_is_reported_and_nothing_else(shared_data: Path, name: str) -> None:
    for raw, seen in zip(read(shared_data / "inventory" / name), observe_file(shared_data, name), strict=True):
        assert seen.name == (raw["name"] or "unknown card")
        assert seen.memory_total_bytes == (None if raw["memory_total_mib"] is None else raw["memory_total_mib"] * MIB)
        assert seen.memory_used_bytes == (None if raw["memory_used_mib"] is None else raw["memory_used_mib"] * MIB)
        assert (seen.utilization is None) == (raw["utilization_gpu_pct"] is None)
        assert seen.temperature_c == raw["temperature_c"]
        assert seen.power_w == raw["power_draw_w"] and seen.power_limit_w == raw["power_limit_w"]
        assert seen.mig_enabled == {"Enabled": True, "Disabled": False}.get(raw["mig_mode"])
        for field in raw["na_in_source"]:
            if field == "utilization_gpu_pct":
                assert seen.utilization is None
        pids = {one["pid"] for one in raw["processes"] or ()}
        assert {one.pid for one in seen.foreign_processes} == pids


@pytest.mark.parametrize("name", MACHINES)
def test_cards_of_one_machine_can_be_told_apart(shared_data: Path, name: str) -> None:
    cards = observe_file(shared_data, name)
    assert len({card.uuid for card in cards}) == len(cards)
    assert all(card.address for card in cards)


@pytest.mark.parametrize("name", MACHINES)
def test_the_library_calls_read_what_was_recorded(
    shared_data: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = read(shared_data / "inventory" / name)
    RecordedDriver(cards).install(monkeypatch)
    found = Driver().read_cards()
    assert found is not None
    for raw, seen in zip(cards, found, strict=True):
        wanted = make_reading(raw)
        if raw["memory_used_mib"] is None or raw["memory_total_mib"] is None:
            wanted = replace(wanted, memory_total_bytes=None, memory_used_bytes=None, memory_free_bytes=None)
        if wanted.memory_free_bytes is None and wanted.memory_total_bytes is not None:
            wanted = replace(wanted, memory_free_bytes=wanted.memory_total_bytes - (wanted.memory_used_bytes or 0))
        slices = tuple(
            one if one.memory_used_bytes is not None else replace(one, memory_total_bytes=None)
            for one in wanted.mig_devices
        )
        seen = replace(seen, processes=tuple(sorted(set(seen.processes), key=lambda one: one.pid)))
        assert seen == replace(
            wanted, mig_devices=slices, processes=tuple(sorted(wanted.processes, key=lambda p: p.pid))
        )


def test_a_mig_card_lists_its_slices(shared_data: Path) -> None:
    card = observe_file(shared_data, "a100-sxm4-80gb-mig.json")[0]
    assert [(one.index, one.gpu_instance, one.memory_total_bytes) for one in card.mig_devices] == [
        (index, index + 3, 19968 * MIB) for index in range(4)
    ]
    assert card.utilization is None, "with MIG the whole card's utilization is not available"


def test_processes_of_our_engines_are_not_foreign(shared_data: Path) -> None:
    both = observe_file(shared_data, "dual-rtx-a5000.json", {100477: "r1"})
    assert [card.foreign_processes for card in both] == [(), ()]
    assert {one.replica_id for card in both for one in card.replica_use} == {"r1"}


def test_what_a_replica_uses_is_the_sum_of_its_processes_each_counted_once() -> None:
    listed = (CardProcess(7, "x", 5), CardProcess(7, "x", 6), CardProcess(8, "y", 10), CardProcess(9, "z", 3))
    found = inventory_cards.replica_use(listed, {7: "r1", 8: "r1", 9: "r2"})
    assert found == (ReplicaUse("r1", 16), ReplicaUse("r2", 3))


def test_nothing_is_told_of_a_replica_with_a_process_whose_use_the_driver_hides() -> None:
    listed = (CardProcess(7, "x", 5), CardProcess(8, "y", None), CardProcess(9, "z", None), CardProcess(9, "z", 3))
    assert inventory_cards.replica_use(listed, {7: "r1", 8: "r1", 9: "r2"}) == (ReplicaUse("r2", 3),)


def test_a_process_that_computes_and_draws_is_listed_once() -> None:
    listed = (CardProcess(7, "x", None), CardProcess(7, "x", 5), CardProcess(3, "y", 1))
    assert inventory_cards.foreign(listed, ()) == (ForeignProcess(3, "y", 1), ForeignProcess(7, "x", 5))


def test_a_card_that_says_nothing_is_still_a_card() -> None:
    seen = inventory_cards.observe(CardReading(index=2), {})
    assert (seen.uuid, seen.address, seen.name) == ("card-2", "2", "unknown card")
    assert seen.memory_total_bytes is seen.utilization is seen.power_w is seen.mig_enabled is None


def test_no_driver_is_normal() -> None:
    assert Driver().read_cards() is None
    assert Driver().read_topology() is None


def test_a_card_that_fell_off_the_bus_is_left_out(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = read(shared_data / "inventory" / "dual-rtx-2080.json")
    cards[0]["lost"] = True
    RecordedDriver(cards).install(monkeypatch)
    found = Driver().read_cards()
    assert found is not None and [one.index for one in found] == [1]


def test_a_driver_that_fails_is_opened_anew(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = RecordedDriver(read(shared_data / "inventory" / "a10g.json"))
    library.install(monkeypatch)
    driver = Driver()
    assert driver.read_cards() and library.opened == 1
    library.broken = True
    assert driver.read_cards() is None and library.opened == 0
    library.broken = False
    assert driver.read_cards() and library.opened == 1


def test_a_machine_that_lost_its_driver_does_not_turn_into_cpu_cores(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = RecordedDriver(read(shared_data / "inventory" / "a10g.json"))
    library.install(monkeypatch)
    machine = inventory.Machine("")
    assert [one.kind for one in machine.accelerators({})] == ["gpu"]
    library.broken = True
    assert machine.accelerators({}) == ()


def make_cards(count: int) -> list[dict[str, Any]]:
    return [{"index": index, "pci_bus_id": f"00000000:{index + 1:02X}:00.0"} for index in range(count)]


def test_recorded_wires_are_read_back(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in sorted((shared_data / "inventory").glob("topo-*.json")):
        links = json.loads(file.read_text())["links"]
        if any(link is None for row in links for link in row):
            continue
        with monkeypatch.context() as patch:
            RecordedDriver(make_cards(len(links)), links).install(patch)
            topology = Driver().read_topology()
        assert topology is not None
        assert [list(row) for row in topology.links] == links, file.name
        topology.check_invariants()


def test_a_mesh_without_switches_counts_its_direct_links(monkeypatch: pytest.MonkeyPatch) -> None:
    links = [["X", "NV1", "NV2"], ["NV1", "X", "SYS"], ["NV2", "SYS", "X"]]
    RecordedDriver(make_cards(3), links).install(monkeypatch)
    topology = Driver().read_topology()
    assert topology is not None
    assert [nvlinks(link) for link in topology.links[0]] == [0, 1, 2]
    assert topology.links[1][2] == "SYS"


def test_a_simulated_node_is_read_from_its_folder(tmp_path: Path) -> None:
    from controlplane.lib import wire
    from workers.node import simulated_fleet

    cards = simulated_fleet.make_cards("sim-01", 8, "NVIDIA H100 80GB HBM3", 80_000_000_000, 3.35e12)
    (tmp_path / inventory.SIMULATED_FILE).write_bytes(wire.encode(cards))
    assert inventory.reader(tmp_path)() == cards


def test_a_real_node_is_read_from_the_machine(tmp_path: Path) -> None:
    assert {one.kind for one in inventory.reader(tmp_path)()} == {"cpu"}


def test_the_engine_that_is_not_installed_has_no_version() -> None:
    assert inventory.vllm_version("") is None
    assert inventory.vllm_version("/no/such/python") is None


def test_errors_of_memory_are_reported_where_the_driver_counts_them(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = read(shared_data / "inventory" / "a10g.json")[0]
    sick = {**card, "uncorrected": 2, "remapped": (0, 1, 1, 0)}
    older = {**card, "uncorrected": 0, "retired_pending": 1}
    RecordedDriver([card, sick, older]).install(monkeypatch)
    found = [inventory_cards.observe(one, {}) for one in Driver().read_cards() or ()]
    assert [(one.uncorrected_errors, one.remap_pending, one.remap_failed) for one in found] == [
        (None, None, None), (2, True, False), (0, True, None),
    ]  # fmt: skip
