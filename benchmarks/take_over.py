"""The gap in answers when the gateway process that owns a deployment dies or hangs: `python -m benchmarks.take_over`.

Several gateway processes behind one port, before a stand-in for an engine with fewer seats than clients, so that some
always wait. The owner is killed, stopped by SIGSTOP (which looks like one that hangs) or told to end. Told are the
longest time without any event of any stream, and how the streams of that time ended. With `--busy N` so many processes
take what CPU there is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.events import Client
from benchmarks.gateway import wait_for_answer
from benchmarks.kills import gateway_workers
from benchmarks.processes import ROOT, free_port, running
from benchmarks.proxies import KEY, MODEL, Target, everything_on, start_headworks
from controlplane.domain.ownership import owner
from controlplane.domain.routing import RoutingSnapshot
from controlplane.lib import keys, valkey, wire

ENGINE_ARGUMENTS = ["--ttft-ms", "20", "--tpot-ms", "20"]
CLIENTS, SEATS = 8, 4
LOOKED_AT_S = {"kill": 4.0, "stop": 9.0, "end": 4.0}
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "end": signal.SIGTERM}
AGAIN_LIMIT_S = 20.0


def few_seats(snapshot: RoutingSnapshot) -> RoutingSnapshot:
    deployment = snapshot.deployments[MODEL]
    replica = replace(deployment.replicas[0], max_num_seqs=SEATS)
    return replace(snapshot, deployments={MODEL: replace(deployment, replicas=(replica,))}, version=time.time_ns())


async def measure(port: int, parent: int, processes: int, rounds: int, how: str) -> dict[str, Any]:
    """Returns the gaps of so many kills."""
    client = Client(f"http://127.0.0.1:{port}", KEY, MODEL)
    load = [asyncio.create_task(client.load(number)) for number in range(CLIENTS)]
    gaps, ended = [], Counter[str]()
    for _ in range(rounds):
        await all_are_there(parent, processes)
        workers = gateway_workers(parent)
        pid = workers[owner(MODEL, workers) or ""]
        at = time.time()
        os.kill(pid, SIGNALS[how])
        await asyncio.sleep(LOOKED_AT_S[how])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        gaps.append(client.longest_gap_s(at - 0.5))
        ended.update(one.how for one in client.ended if at <= one.at < at + LOOKED_AT_S[how])
        client.events.clear()
    client.stopped = True
    await asyncio.gather(*load)
    return {
        "processes": processes,
        "gap_s": {"median": round(statistics.median(gaps), 3), "most": round(max(gaps), 3)},
        "gaps_s": [round(one, 3) for one in gaps],
        "ended": dict(ended),
    }


async def all_are_there(parent: int, processes: int) -> None:
    deadline = time.monotonic() + AGAIN_LIMIT_S
    while len(gateway_workers(parent)) < processes and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    await asyncio.sleep(3.0)  # a new one joins for a second before it owns anything


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that take what CPU there is."""
    some = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in some:
            one.kill()
            one.wait()


def measure_in(folder: Path, mock: Path, processes: int, given: argparse.Namespace, how: str) -> dict[str, Any]:
    engine, port = free_port(), free_port()
    command = [sys.executable, str(mock), "--port", str(engine), *ENGINE_ARGUMENTS]
    proxy, environment = start_headworks(engine, port, folder)
    with contextlib.closing(valkey.connect(os.environ["REDIS_URL"])) as client:
        client.set(keys.snapshot(), wire.encode(few_seats(everything_on(engine))))
    environment["HEADWORKS_GATEWAY_PROCESSES"] = str(processes)
    with (
        running(command, {}, folder / "engine.log"),
        running(proxy, environment, folder / "gateway.log") as process,
    ):
        wait_for_answer(Target("headworks", None, key=KEY), port, process)
        with busy(given.busy):
            figures = asyncio.run(measure(port, process.pid, processes, given.rounds, how))
        figures["given_up_as_hung"] = (folder / "gateway.log").read_text().count(" hangs: ")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", default="2,3")
    parser.add_argument("--how", default="kill,stop,end")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="(it always prints JSON)")
    given = parser.parse_args()
    mock = Path(os.environ.get("HEADWORKS_SHARED", ROOT.parent / "shared")) / "bench" / "mock_engine.py"
    if not mock.exists():
        print(f"take_over: skipped, there is no {mock} (set HEADWORKS_SHARED)", file=sys.stderr)
        return 0
    figures = {}
    for how in given.how.split(","):
        for processes in map(int, given.processes.split(",")):
            with tempfile.TemporaryDirectory(prefix="hwb-") as name:
                figures[f"{how}, {processes} processes"] = measure_in(Path(name), mock, processes, given, how)
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
