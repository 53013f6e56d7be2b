"""What a collector costs: CPU of its process with many replicas that answer a recorded vLLM scrape.

    python -m benchmarks.collector [--replicas 60] [--seconds 20] [--json]

Needs a Valkey (REDIS_URL). The engines are one process with a port each that answers the same text; the records of
the replicas are made in a temporary folder. Prints CPU milliseconds a second of the collector.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.scrape import DEFAULT
from controlplane.domain.desired import EngineSpec, ReplicaDesired
from workers.node import records


class _Answer(asyncio.Protocol):
    """Answers whatever comes with the recorded text."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer)


async def serve(count: int, text: bytes) -> None:
    """Serves `count` engines and prints their ports as one line of JSON."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(lambda: _Answer(head + text), "127.0.0.1", 0) for _ in range(count)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.Event().wait()


def write_records(folder: Path, ports: list[int]) -> None:
    """Makes a record of a ready replica for each port, four replicas a deployment."""
    for index, port in enumerate(ports):
        spec = EngineSpec("vllm", "/m", "m")
        desired = ReplicaDesired(f"r{index:05}", "d", f"chat-{index // 4}", 1, "h", "run", spec, (), "k")
        records.write_record(folder, make_record(desired, port))


def make_record(desired: ReplicaDesired, port: int) -> records.ReplicaRecord:
    """Returns the record of a ready replica."""
    return records.ReplicaRecord(
        desired=desired, state="ready", since=0.0, goal="run", seq=1, attempt=0, retry_at=None, exit_phase="none",
        exit_since=0.0, drain_timeout_s=60.0, transitions=(), url=f"http://127.0.0.1:{port}", engine_version="0.32.0",
    )  # fmt: skip


def measure(replicas: int, seconds: int) -> dict[str, float]:
    """Returns CPU milliseconds a second of a collector with so many replicas, and its memory."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "benchmarks.collector", "--serve", str(replicas)]
        engines = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert engines.stdout is not None
        write_records(Path(home) / "node" / "bench", json.loads(engines.stdout.readline()))
        environment = {**os.environ, "HEADWORKS_HOME": home, "HEADWORKS_NAMESPACE": "hwbench"}
        command = [sys.executable, "-m", "workers.node.collector", "--node", "bench"]
        collector = subprocess.Popen(command, env=environment)
        try:
            time.sleep(4)
            process = psutil.Process(collector.pid)
            before, begun = process.cpu_times(), time.monotonic()
            time.sleep(seconds)
            after, elapsed = process.cpu_times(), time.monotonic() - begun
            used = after.user + after.system - before.user - before.system
            return {
                "replicas": replicas,
                "cpu_ms_a_second": round(used / elapsed * 1000, 1),
                "cpu_ms_a_replica": round(used / elapsed * 1000 / replicas, 3),
                "rss_mib": round(process.memory_info().rss / 2**20, 1),
            }
        finally:
            for child in (collector, engines):
                child.terminate()
                child.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve, DEFAULT.read_bytes()))
        return
    result = measure(options.replicas, options.seconds)
    if options.json:
        print(json.dumps(result))
    else:
        print(f"{result['cpu_ms_a_second']} ms of CPU a second at {result['replicas']} replicas")


if __name__ == "__main__":
    main()
