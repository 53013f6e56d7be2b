"""The whole worker as a process: Celery, supervisor, real Valkey, killed in every way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from celery import Celery

from controlplane.embedded import valkey as embedded_valkey
from controlplane.lib import keys
from tests.workers.node.bench import Bench, Stream, eventually, generate, make_replica
from tests.workers.node.worker_process import Worker
from workers.node import processes, records

pytestmark = pytest.mark.services


def end_engine(bench: Bench, replica_id: str = "r1") -> None:
    bench.want_stop(replica_id, 0.0)
    bench.wait_for("stopped", replica_id)


def test_a_killed_worker_finds_its_engine_again_and_no_request_fails(bench: Bench, worker: Worker) -> None:
    worker.start()
    bench.want(make_replica(token_s=0.05))
    ready = bench.wait_for("ready")
    assert ready.url
    identity, first = bench.identity(), bench.report()
    stream = Stream(ready.url, "hwr-r1", max_tokens=100)
    statuses: list[int] = []
    stop = threading.Event()

    def keep_asking() -> None:
        while not stop.wait(0.05):
            statuses.append(generate(ready.url or "", "hwr-r1"))

    asking = threading.Thread(target=keep_asking)
    asking.start()
    worker.end(signal.SIGKILL)
    worker.start()
    eventually(lambda: (one := bench.report()) and first and one.incarnation != first.incarnation, "a new report")
    seen = bench.seen()
    stop.set()
    asking.join()
    assert seen and (seen.state, seen.pid, seen.seq) == ("ready", ready.pid, ready.seq)
    assert bench.identity() == identity and processes.is_alive(identity)
    assert set(statuses) == {200}
    assert stream.read_to_end().endswith(b"data: [DONE]\n\n")
    end_engine(bench)


def test_an_engine_that_died_while_the_worker_was_away_is_restarted(bench: Bench, worker: Worker) -> None:
    worker.start()
    bench.want(make_replica(spawns_child=True))
    ready = bench.wait_for("ready")
    identity = bench.identity()
    worker.end(signal.SIGKILL)
    os.kill(identity.pid, signal.SIGKILL)
    worker.start()
    again = bench.wait_for("ready", after_seq=ready.seq)
    assert again.pid != ready.pid
    assert processes.members(identity) == [], "the group of the dead leader was ended"
    reason = next(one.reason for one in again.transitions if one.to_state == "failed")
    assert "not known" in reason.message
    end_engine(bench)


def test_a_process_whose_pid_was_never_written_down_is_found_again(bench: Bench, worker: Worker) -> None:
    worker.start()
    bench.want(make_replica(start_s=3))
    starting = bench.wait_for("starting")
    identity = bench.identity()
    worker.end(signal.SIGKILL)
    path = bench.folder / "replicas/r1/record.json"
    record = bench.record()
    forgotten = replace(record, pid=None, process_started_ticks=None, process_place="", process_group=None)
    records.write_record(bench.folder, forgotten)
    assert path.exists() and bench.record().pid is None
    worker.start()
    assert bench.wait_for("ready", after_seq=starting.seq).pid == identity.pid
    end_engine(bench)


def test_sigterm_ends_the_worker_and_leaves_the_engine(bench: Bench, worker: Worker) -> None:
    worker.start()
    bench.want(make_replica())
    ready = bench.wait_for("ready")
    assert worker.end(signal.SIGTERM) == 0
    assert ready.url and generate(ready.url, "hwr-r1") == 200
    worker.start()
    end_engine(bench)


def test_a_stop_that_was_wished_while_the_worker_was_away_is_carried_out(bench: Bench, worker: Worker) -> None:
    worker.start()
    bench.want(make_replica())
    ready = bench.wait_for("ready")
    worker.end(signal.SIGKILL)
    bench.want_stop(drain_timeout_s=0.0)
    worker.start()
    bench.wait_for("stopped", after_seq=ready.seq)


class OwnValkey:
    """A Valkey that a test may kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "v.sock"
        self.url = embedded_valkey.url(self.socket)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = embedded_valkey.server_command(self.folder, self.socket, durable=True)
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers, "Valkey answers")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        self.socket.unlink(missing_ok=True)

    def _answers(self) -> bool:
        import redis

        with contextlib.closing(redis.Redis.from_url(self.url)) as client, contextlib.suppress(redis.RedisError):
            return bool(client.ping())
        return False


@pytest.fixture
def own_valkey(tmp_path_factory: pytest.TempPathFactory, bench: Bench, worker: Worker) -> Iterator[OwnValkey]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="hwv-") as folder:  # short: a socket's path has at most 107 bytes
        one = OwnValkey(Path(folder))
        bench.url = worker.url = one.url
        yield one
        if worker.process is not None:
            worker.end(signal.SIGKILL)
        one.kill()


def send_wake(url: str) -> None:
    app = Celery("sender", broker=url.replace("unix://", "redis+socket://"), set_as_current=False)
    app.conf.broker_transport_options = {"global_keyprefix": f"{keys.NAMESPACE}:celery:"}
    with app.connection_for_write() as connection:
        app.send_task("node.wake", queue="node.bench", ignore_result=True, connection=connection)
    app.close()


def queue_length(bench: Bench) -> int:
    with contextlib.closing(bench.valkey) as client:
        found = client.llen(f"{keys.NAMESPACE}:celery:node.bench")
    assert isinstance(found, int)
    return found


def test_a_task_waits_in_the_queue_of_its_node_until_the_worker_takes_it(bench: Bench, worker: Worker) -> None:
    send_wake(bench.url)
    assert queue_length(bench) == 1
    worker.start()
    eventually(lambda: queue_length(bench) == 0, "the worker takes it")


def test_engines_serve_on_while_valkey_is_away(bench: Bench, worker: Worker, own_valkey: OwnValkey) -> None:
    own_valkey.start()
    pid = worker.start()
    bench.want(make_replica())
    ready = bench.wait_for("ready")
    assert ready.url and ready.pid
    own_valkey.kill()
    assert generate(ready.url, "hwr-r1") == 200
    os.kill(ready.pid, signal.SIGKILL)
    # nobody can be told, and still it is restarted: the record on disk says so
    eventually(lambda: bench.record().state == "ready" and bench.record().pid != ready.pid, "ready again")
    own_valkey.start()
    again = bench.wait_for("ready", after_seq=ready.seq)
    assert again.pid == bench.record().pid
    send_wake(own_valkey.url)
    eventually(lambda: queue_length(bench) == 0, "the worker takes tasks again")
    assert worker.process and worker.process.pid == pid and worker.process.poll() is None
    end_engine(bench)


def test_a_worker_that_starts_without_valkey_supervises_at_once(
    bench: Bench, worker: Worker, own_valkey: OwnValkey
) -> None:
    own_valkey.start()
    worker.start()
    bench.want(make_replica())
    ready = bench.wait_for("ready")
    worker.end(signal.SIGKILL)
    own_valkey.kill()
    assert ready.pid
    os.kill(ready.pid, signal.SIGKILL)
    worker.start()
    eventually(lambda: bench.record().state == "ready" and bench.record().pid != ready.pid, "restarted from the disk")
    own_valkey.start()
    bench.wait_for("ready", after_seq=ready.seq)
    send_wake(own_valkey.url)
    eventually(lambda: queue_length(bench) == 0, "the worker takes tasks")
    end_engine(bench)


def test_a_worker_without_valkey_ends_on_sigterm(bench: Bench, worker: Worker, own_valkey: OwnValkey) -> None:
    worker.start()
    eventually(lambda: "next try in" in worker.log.read_text(), "it looks for its queue")
    assert worker.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("name", ["", "-n", "a/b", "a b", "x" * 64, "ümlaut", "../up"])
def test_a_name_that_can_not_be_an_address_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    env = {**os.environ, "HEADWORKS_HOME": str(tmp_path), "HEADWORKS_NODE_NAME": name or " "}
    command = [sys.executable, "-m", "workers.node"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "HEADWORKS_NODE_NAME" in done.stderr and "Traceback" not in done.stderr
