from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from controlplane.domain.desired import AssignedAccelerator
from controlplane.domain.observed import AcceleratorObserved
from workers.node.collector_cards import (
    Cards,
    CpuUse,
    GroupMemory,
    of_replica,
    parse_cores,
    read_core_times,
    with_simulated_load,
)

STAT = """cpu  20 0 20 60 0 0 0 0 0 0
cpu0 10 0 10 30 0 0 0 0 0 0
cpu1 10 0 10 30 0 0 0 0 0 0
intr 1
"""


def make_card(uuid: str, kind: str = "gpu") -> AcceleratorObserved:
    return AcceleratorObserved(uuid, 0, kind, kind, "0", 1000, 400, 600, utilization=0.7)


def test_core_lists() -> None:
    assert parse_cores("0-2,8") == [0, 1, 2, 8]
    assert parse_cores("GPU-1234") == []


def test_the_use_of_cores_is_known_from_the_second_reading(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT)
    use = CpuUse(stat)
    use.sample()
    assert use.of([0, 1]) is None
    stat.write_text(STAT.replace("cpu0 10 0 10 30", "cpu0 17 0 10 33").replace("cpu1 10 0 10 30", "cpu1 10 0 10 40"))
    use.sample()
    assert (use.of([0]), use.of([0, 1]), use.of([7])) == (0.7, 0.35, None)


def test_waiting_for_a_disk_is_not_use() -> None:
    assert read_core_times("cpu0 1 0 1 8 90 0 0 0 0 0\n")[0].busy == 2


def test_the_memory_of_a_process_group_is_read() -> None:
    group = os.getpgid(0)
    assert GroupMemory().sample({group}, 0.0)[group] > 1_000_000
    assert GroupMemory().sample({999_999_999}, 0.0) == {999_999_999: 0}


def test_a_replica_on_cores_uses_the_memory_of_its_own_processes(tmp_path: Path) -> None:
    assigned = [AssignedAccelerator(f"cpu-{i}", "cpu", str(i), memory_bytes=1000) for i in range(2)]
    stat = tmp_path / "stat"
    stat.write_text(STAT)
    found = of_replica(assigned, {}, CpuUse(stat), 300)
    assert [(card.memory_used_bytes, card.memory_total_bytes) for card in found] == [(300, 1000), (0, 1000)]


def test_a_card_that_is_not_seen_is_left_out() -> None:
    assigned = [AssignedAccelerator("a", "gpu", "a"), AssignedAccelerator("b", "gpu", "b")]
    card = make_card("b")
    assert of_replica(assigned, {"b": card}, CpuUse(), None) == [card]


def test_a_simulated_card_is_full_when_held_and_busy_when_something_runs() -> None:
    cards = [make_card("a", "simulated"), make_card("b", "simulated"), make_card("c", "simulated"), make_card("d")]
    found = with_simulated_load(cards, {"a": 3.0, "b": 0.0})
    assert [(c.utilization, c.memory_used_bytes) for c in found] == [(1.0, 900), (0.0, 900), (0.0, 0), (0.7, 400)]


async def test_a_driver_that_hangs_or_fails_leaves_no_stale_cards() -> None:
    answers: list[Sequence[AcceleratorObserved] | OSError] = [[make_card("a")], OSError("driver")]

    def read() -> Sequence[AcceleratorObserved]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    cards = Cards(read)
    assert cards.newest() == ()
    for _ in range(2):
        cards.ask()
        await cards.close()
        await asyncio.sleep(0)
    assert [card.uuid for card in cards.newest()] == ["a"]  # still fresh; the failed question changed nothing
