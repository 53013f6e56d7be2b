from __future__ import annotations

from pathlib import Path

import pytest

from workers.node import inventory_cpu
from workers.node.inventory_cpu import Core, Memory, core_list, group_cores, observe, read_memory, read_quota


def make_cores(count: int, nodes: int = 1, threads: int = 1) -> list[Core]:
    """Numbered as Linux does: first one thread of every core, then the second ones."""
    physical = count // threads
    return [
        Core(cpu, 0, cpu % physical, (cpu % physical) * nodes // physical) for cpu in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, [1]), (2, [1, 1]), (3, [1, 1, 1]), (4, [2, 2]), (6, [3, 3]), (8, [4, 4]), (10, [4, 4, 2]), (16, [4, 4, 4, 4])],
)
def test_small_machines_have_two_groups_and_large_ones_groups_of_four(count: int, sizes: list[int]) -> None:
    assert [len(cpus) for _, cpus in group_cores(make_cores(count))] == sizes


def test_a_group_never_crosses_numa_nodes() -> None:
    assert group_cores(make_cores(12, nodes=2)) == [
        (0, [0, 1, 2]), (0, [3, 4, 5]), (1, [6, 7, 8]), (1, [9, 10, 11])
    ]  # fmt: skip


def test_threads_of_a_core_stay_together() -> None:
    assert group_cores(make_cores(8, threads=2)) == [(0, [0, 1, 4, 5]), (0, [2, 3, 6, 7])]


def test_a_quota_limits_the_processors() -> None:
    assert group_cores(make_cores(64), most=2) == [(0, [0]), (0, [1])]


@pytest.mark.parametrize(
    ("cpus", "text"), [([0], "0"), ([0, 1, 2, 3], "0-3"), ([0, 1, 4, 5], "0-1,4-5"), ([2, 5, 9], "2,5,9")]
)
def test_core_lists_are_written_as_the_kernel_does(cpus: list[int], text: str) -> None:
    assert core_list(cpus) == text


def test_a_group_has_its_share_of_the_memory() -> None:
    first, second = observe([(0, [0]), (0, [1, 2, 3])], "EPYC", Memory(400, 100), {1: 0.5, 2: 1.0})
    assert (first.memory_total_bytes, first.memory_free_bytes, first.memory_used_bytes) == (100, 25, 75)
    assert (second.memory_total_bytes, second.address, second.name) == (300, "1-3", "EPYC, 3 cores")
    assert first.utilization is None
    assert second.utilization == 0.75


def test_this_machine_can_be_read() -> None:
    cores, memory = inventory_cpu.read_cores(), inventory_cpu.read_memory()
    assert cores and 0 < memory.available_bytes <= memory.total_bytes
    assert inventory_cpu.cpu_name()
    meter = inventory_cpu.BusyMeter()
    assert meter.read() == {}
    assert all(0 <= value <= 1 for value in meter.read().values())


@pytest.mark.parametrize(
    ("text", "quota"), [("max 100000", None), ("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1)]
)
def test_the_quota_of_a_container(tmp_path: Path, text: str, quota: int | None) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert read_quota(tmp_path) == quota


def test_the_quota_of_an_older_container(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000")
    assert read_quota(tmp_path) is None
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("400000")
    assert read_quota(tmp_path) == 4


def test_the_memory_of_a_container(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000")
    (tmp_path / "memory.current").write_text("400000")
    assert read_memory(tmp_path) == Memory(1_000_000, 600_000)
    (tmp_path / "memory.max").write_text("max")
    assert read_memory(tmp_path).total_bytes > 1_000_000
