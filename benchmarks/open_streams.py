"""Memory of the gateway while many streams are open: `python -m benchmarks.open_streams --streams 2000 --seconds 600`.

A stand-in for an engine sends two tokens a second on each stream. The gateway's resident memory is read every few
seconds; at the end every stream is cut by its client, and what the gateway still counts is shown (it has to be 0).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.gateway import wait_for_answer
from benchmarks.processes import ROOT, free_port, running
from benchmarks.proxies import KEY, MODEL, Target, start_headworks
from benchmarks.reports import own_servers

ENGINE_ARGUMENTS = ["--ttft-ms", "50", "--tpot-ms", "500"]
AT_ONCE = 50  # streams that are opened together, so that seats keep up
LATEST_S = 120.0
AT_REST = ("headworks_gateway_in_flight", "headworks_gateway_kv_tokens_reserved", "headworks_gateway_queue")


class Stream(asyncio.Protocol):
    """A client that reads and forgets."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.status = b""
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self._request)  # type: ignore[attr-defined]  # of a socket, so it can

    def data_received(self, data: bytes) -> None:
        self.status = self.status or data[9:12]
        self.received += len(data)


def resident_bytes(pid: int) -> int:
    """Returns the resident memory of a process and its children."""
    total = 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            total += int(line.split()[1]) * 1024
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        total += resident_bytes(int(child))
    return total


async def open_all(port: int, count: int) -> list[Stream]:
    """Opens the streams; one that is refused is asked for again until it is let in."""
    fields = {"model": MODEL, "messages": [{"role": "user", "content": "hello " * 20}], "max_tokens": 4000}
    body = json.dumps({**fields, "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    request = f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    loop, opened, deadline = asyncio.get_running_loop(), list[Stream](), time.monotonic() + LATEST_S
    while len(opened) < count and time.monotonic() < deadline:
        some = [
            (await loop.create_connection(lambda: Stream(request), "127.0.0.1", port))[1]
            for _ in range(min(AT_ONCE, count - len(opened)))
        ]
        await asyncio.sleep(1.0)
        for one in some:
            if one.status in (b"", b"200"):
                opened.append(one)
            else:
                one.transport.close()
    return opened


async def watch(port: int, pid: int, count: int, seconds: float) -> dict[str, Any]:
    """Returns the memory before, while and after the streams are open."""
    before = resident_bytes(pid)
    streams = await open_all(port, count)
    began, seen = time.monotonic(), list[tuple[float, int]]()
    while time.monotonic() - began < seconds:
        await asyncio.sleep(min(5.0, seconds / 10))
        seen.append((time.monotonic() - began, resident_bytes(pid)))
    flowing = sum(one.status == b"200" for one in streams)
    for one in streams:
        one.transport.abort()  # type: ignore[attr-defined]
    await asyncio.sleep(3.0)
    slope = statistics.linear_regression(*zip(*seen, strict=True)).slope if len(seen) > 1 else 0.0
    return {
        "streams": flowing,
        "seconds": seconds,
        "before_mib": round(before / 2**20, 1),
        "open_first_mib": round(seen[0][1] / 2**20, 1),
        "open_most_mib": round(max(one for _, one in seen) / 2**20, 1),
        "open_last_mib": round(seen[-1][1] / 2**20, 1),
        "growth_mib_per_minute": round(slope * 60 / 2**20, 3),
        "after_mib": round(resident_bytes(pid) / 2**20, 1),
        "at_rest": at_rest(port),
    }


def at_rest(port: int) -> dict[str, float]:
    """Returns the sums of what the gateway counts as running, held and waiting."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    rows = [line.rsplit(" ", 1) for line in lines if line.startswith(AT_REST)]
    return {name: sum(float(value) for key, value in rows if key.split("{")[0] == name) for name in AT_REST}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true", help="(it always prints JSON)")
    given = parser.parse_args()
    mock = Path(os.environ.get("HEADWORKS_SHARED", ROOT.parent / "shared")) / "bench" / "mock_engine.py"
    if not mock.exists():
        print(f"open_streams: skipped, there is no {mock} (set HEADWORKS_SHARED)", file=sys.stderr)
        return 0
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="hwb-") as name, own_servers() as addresses:
        os.environ["REDIS_URL"] = addresses["REDIS_URL"]
        folder, engine, port = Path(name), free_port(), free_port()
        command = [sys.executable, str(mock), "--port", str(engine), *ENGINE_ARGUMENTS]
        proxy, environment = start_headworks(engine, port, folder)
        with (
            running(command, {}, folder / "engine.log"),
            running(proxy, environment, folder / "gateway.log") as process,
        ):
            wait_for_answer(Target("headworks", None, key=KEY), port, process)
            figures = asyncio.run(watch(port, process.pid, given.streams, given.seconds))
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
