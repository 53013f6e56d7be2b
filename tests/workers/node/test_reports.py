from __future__ import annotations

from pathlib import Path

from controlplane.domain.lifecycle import Reason, State, Transition
from controlplane.lib import wire
from workers.node import records, reports

TAIL = tuple(f"line {number}" for number in range(30))


def make_loop(rounds: int) -> tuple[Transition, ...]:
    steps: tuple[tuple[State, State, Reason], ...] = (
        ("placed", "starting", Reason("launch", "x")),
        ("starting", "failed", Reason("engine_ended", "x", log_tail=TAIL)),
        ("failed", "placed", Reason("retry", "x")),
    )
    return tuple(
        Transition(3 * number + offset + 1, 0.0, before, after, reason)
        for number in range(rounds)
        for offset, (before, after, reason) in enumerate(steps)
    )


def test_a_crash_loop_does_not_make_reports_large() -> None:
    kept = reports.shorten(make_loop(20))
    assert [one.seq for one in kept] == list(range(49, 61))
    assert [one.seq for one in kept if one.reason.log_tail] == [56, 59]


def test_a_whole_life_is_reported_with_every_step() -> None:
    assert reports.shorten(make_loop(2)) == make_loop(2)


def test_a_record_survives_the_disk(tmp_path: Path) -> None:
    from tests.workers.node.bench import make_replica

    record = records.ReplicaRecord(
        make_replica(start_s=1.5), "ready", 1.0, "run", 3, 0, None, "none", 0.0, 60.0, make_loop(1), launch=1, pid=7
    )
    records.write_record(tmp_path, record)
    assert records.read_records(tmp_path) == [record]
    path = tmp_path / "replicas/r1/record.json"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    path.write_bytes(wire.encode(record)[:-20])
    assert records.read_records(tmp_path) == []
    records.remove_record(tmp_path, "r1")
    records.remove_record(tmp_path, "r1")
