from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.domain.desired import AssignedAccelerator
from controlplane.domain.model_files import FilesSeen
from controlplane.lib import keys, wire
from tests.workers.node.bench import QUICK, Bench, Stream, eventually, generate, make_replica
from workers.node import processes

pytestmark = pytest.mark.services


def end(bench: Bench, replica_id: str = "r1") -> None:
    bench.want_stop(replica_id, 0.0)
    bench.wait_for("stopped", replica_id)


def test_a_replica_is_ready_after_a_real_generation(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(start_s=0.5))
    seen = bench.wait_for("ready")
    assert [one.to_state for one in seen.transitions] == ["starting", "warming", "ready"]
    assert "2 tokens" in seen.transitions[-1].reason.message
    assert seen.facts.engine_version == "1.0" and seen.facts.start_s is not None
    assert seen.facts.cache_config == {"num_gpu_blocks": "364", "block_size": "128"}
    assert seen.url and generate(seen.url, "hwr-r1") == 200
    end(bench)


def test_an_engine_that_dies_at_its_first_generation_never_becomes_ready(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(dies_on_generation=True))
    failed = bench.wait_for("failed")
    again = bench.wait_for("failed", after_seq=failed.seq)
    assert again.attempt == 2
    assert "ready" not in {one.to_state for one in again.transitions}
    reason = [one.reason for one in again.transitions if one.to_state == "failed"][-1]
    assert "exit code 3" in reason.message and "died on its first token" in reason.message
    assert "tiny engine listens" in reason.log_tail
    end(bench)


def test_an_engine_that_answers_the_generation_with_an_error_never_becomes_ready(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(fails_generation=True))
    seen = bench.wait_for("failed")
    reason = seen.transitions[-1].reason
    assert reason.code == "warm_up_failed" and "no kernel for this card" in reason.message
    end(bench)


def test_an_engine_that_ends_while_it_starts_is_tried_again_with_a_growing_pause(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(dies_at_start=True))
    first = bench.wait_for("failed")
    second = bench.wait_for("failed", after_seq=first.seq)
    assert first.retry_at and second.retry_at
    assert second.retry_at - second.since > first.retry_at - first.since
    assert "exit code 7" in second.transitions[-1].reason.message
    assert "ValueError: no such model" in second.transitions[-1].reason.log_tail
    end(bench)


def test_a_key_that_an_engine_printed_does_not_leave_the_node(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(prints_key=True))
    reason = bench.wait_for("failed").transitions[-1].reason
    assert "ValueError: nobody knows the key •••" in reason.log_tail
    assert "hwr-r1" not in wire.encode(reason).decode() and "•••" in reason.message
    end(bench)


def test_files_of_models_that_are_asked_for_are_reported_and_seen_when_they_come(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "models" / "tiny"
    bench.start()
    bench.ask_for(str(folder))

    def seen() -> FilesSeen | None:
        report = bench.report()
        return report.model_files.found[0] if report and report.model_files and report.model_files.found else None

    assert eventually(seen, "it has looked").state == "absent"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.gguf").write_bytes(b"GGUF")
    bench.ask_for(str(folder), str(tmp_path))  # another question is looked at at once
    present = FilesSeen(str(folder), "present", 4)
    eventually(lambda: seen() == present, "what came meanwhile is reported")


def test_a_program_that_does_not_exist_is_a_reason_and_not_a_traceback(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(program="/no/such/python"))
    reason = bench.wait_for("failed").transitions[-1].reason
    assert reason.code == "launch_failed" and "/no/such/python" in reason.message
    end(bench)


def test_an_engine_that_nobody_has_heard_of_is_a_reason(bench: Bench) -> None:
    bench.start()
    wish = make_replica()
    bench.want(replace(wish, spec=replace(wish.spec, engine="steam")))
    assert bench.wait_for("failed").transitions[-1].reason.code == "unknown_engine"
    end(bench)


def test_a_killed_engine_is_restarted_and_the_reason_kept(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(spawns_child=True))
    ready = bench.wait_for("ready")
    assert ready.pid
    identity = bench.identity()
    assert len(processes.members(identity)) == 2
    os.kill(ready.pid, signal.SIGKILL)
    again = bench.wait_for("ready", after_seq=ready.seq)
    assert again.pid != ready.pid and again.attempt == 1
    assert not processes.members(identity), "the child of the dead leader was ended before the restart"
    reason = next(one.reason for one in again.transitions if one.to_state == "failed")
    assert "signal SIGKILL" in reason.message and reason.log_tail
    end(bench)


def test_stop_waits_for_running_requests(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(token_s=0.05))
    ready = bench.wait_for("ready")
    assert ready.url
    stream = Stream(ready.url, "hwr-r1", max_tokens=160)  # 8 s: a report comes every other second
    bench.want_stop()
    draining = bench.wait_for("draining")
    eventually(lambda: (bench.seen() or draining).in_flight == 1, "the running request is counted")
    assert stream.read_to_end().endswith(b"data: [DONE]\n\n")
    assert bench.wait_for("stopped").pid is None


def test_a_request_that_outlasts_the_limit_is_cut(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(token_s=0.1))
    ready = bench.wait_for("ready")
    assert ready.url
    stream = Stream(ready.url, "hwr-r1", max_tokens=1000)
    bench.want_stop(drain_timeout_s=0.5)
    bench.wait_for("stopped")
    with contextlib.suppress(ConnectionResetError):
        assert b"[DONE]" not in stream.read_to_end()
    stream.socket.close()


def test_an_engine_that_ignores_sigterm_is_killed_with_its_children(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(ignores_term=True, spawns_child=True))
    bench.wait_for("ready")
    identity = bench.identity()
    end(bench)
    assert processes.members(identity) == []


def test_a_child_that_outlives_its_leader_is_killed(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(spawns_child=True))
    bench.wait_for("ready")
    identity = bench.identity()
    end(bench)
    assert processes.members(identity) == []


def test_a_replica_that_is_no_longer_listed_is_stopped_and_forgotten(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica())
    bench.wait_for("ready")
    log = Path(bench.record().log_path or "")
    bench.drop()
    eventually(lambda: (found := bench.report()) and not found.replicas, "the replica is forgotten")
    assert not (log.parent / "record.json").exists()
    assert log.exists(), "the log is kept for a while"


def test_a_new_wish_to_stop_an_unknown_replica_is_answered_with_stopped(bench: Bench) -> None:
    bench.start()
    bench.want(replace(make_replica(), goal="stop"))
    assert bench.wait_for("stopped").pid is None


def test_engines_on_one_accelerator_start_one_after_another(bench: Bench) -> None:
    bench.start()
    elsewhere = replace(make_replica("r3"), accelerators=(AssignedAccelerator("cpu-1", "cpu", "1"),))
    bench.want(make_replica("r1", start_s=0.5), make_replica("r2"), elsewhere)
    first, second, third = (bench.wait_for("ready", one) for one in ("r1", "r2", "r3"))
    began = {one.replica_id: one.transitions[0].at for one in (first, second, third)}
    ready_at = {one.replica_id: one.transitions[-1].at for one in (first, second, third)}
    earlier, later = sorted(("r1", "r2"), key=began.__getitem__)
    assert began[later] >= ready_at[earlier]
    assert began["r3"] < max(ready_at["r1"], ready_at["r2"])
    for one in ("r1", "r2", "r3"):
        end(bench, one)


def test_an_engine_that_hangs_while_ready_is_replaced(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(limits=replace(QUICK, health_lost_after_s=0.1)))
    ready = bench.wait_for("ready")
    assert ready.pid
    os.kill(ready.pid, signal.SIGSTOP)
    failed = eventually(
        lambda: next((one for one in (bench.seen() or ready).transitions if one.to_state == "failed"), None),
        "the hang is noticed",
    )
    assert failed.reason.code == "health_lost"
    bench.wait_for("ready", after_seq=failed.seq)
    end(bench)


def test_an_engine_sees_nothing_of_the_worker(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("HEADWORKS_SECRET_KEY", "secret")
    bench.start()
    bench.want(make_replica())
    pid = bench.wait_for("ready").pid
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"secret" not in environment and b"REDIS_URL" not in environment
    assert b"HEADWORKS_REPLICA_KEY=hwr-r1" in environment
    opened = [Path(f"/proc/{pid}/fd/{name}").readlink() for name in (0, 1, 2)]
    assert opened == [Path("/dev/null"), *[bench.folder / "replicas/r1/engine.log"] * 2]
    inherited = {entry.readlink().name for entry in Path(f"/proc/{pid}/fd").iterdir()} & _sockets()
    assert not inherited
    assert b"hwr-r1" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    end(bench)


def test_an_engine_is_started_as_befits_the_version_that_the_machine_has(bench: Bench) -> None:
    bench.start()
    supervisor = bench.supervisor
    assert supervisor is not None
    eventually(lambda: supervisor._inventory.newest, "the machine was not read")
    bench.want(make_replica())
    pid = bench.wait_for("ready").pid
    assert b'"version": "1.0"' in Path(f"/proc/{pid}/cmdline").read_bytes()
    end(bench)


def _sockets() -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(entry.readlink().name)
    return {name for name in found if name.startswith("socket:")}


def test_without_any_document_engines_run_on(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica())
    ready = bench.wait_for("ready")
    bench.stop()
    (bench.folder / "desired.json").unlink()
    with contextlib.closing(bench.valkey) as client:
        client.delete(keys.desired("bench"))
    bench.start()
    eventually(lambda: (one := bench.report()) and one.desired_version == 0, "a report of the new start")
    seen = bench.seen()
    assert seen and (seen.state, seen.pid) == ("ready", ready.pid)
    end(bench)


def test_an_older_document_after_a_crash_of_valkey_stops_nothing(bench: Bench) -> None:
    bench.start()
    older = bench.document()
    bench.want(make_replica())
    ready = bench.wait_for("ready")
    with contextlib.closing(bench.valkey) as client:
        client.set(keys.desired("bench"), wire.encode(older))
        client.publish(keys.desired_changed("bench"), "0")
    bench.want(make_replica("r2"))
    bench.wait_for("ready", "r2")
    seen = bench.seen()
    assert seen and (seen.state, seen.pid) == ("ready", ready.pid)
    end(bench)
    end(bench, "r2")


@pytest.mark.parametrize("text", [b"not json", b'{"schema": 99, "node": "bench", "version": 9, "published_at": 9e9}'])
def test_a_document_that_can_not_be_used_changes_nothing(bench: Bench, text: bytes) -> None:
    bench.start()
    bench.want(make_replica())
    ready = bench.wait_for("ready")
    with contextlib.closing(bench.valkey) as client:
        client.set(keys.desired("bench"), text)
        client.publish(keys.desired_changed("bench"), "9")
    before = bench.report()
    eventually(lambda: bench.report() != before, "the next report")
    seen = bench.seen()
    assert seen and (seen.state, seen.pid) == ("ready", ready.pid)
    end(bench)
