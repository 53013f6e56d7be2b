"""Several real gateway processes behind one port, and connections to the one of them that a test wants."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.domain.ownership import owner
from controlplane.domain.routing import RoutingSnapshot
from tests.gateway.conftest import Answer, make_request, read_answer
from tests.gateway.test_process import process_of

KEEP = {"connection": "keep-alive"}


@dataclass(slots=True)
class Worker:
    """One of the processes; `mark` is what its request ids begin with."""

    pid: int
    id: str
    socket: Path
    mark: str = ""

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)


@dataclass
class Line:
    """A connection that stays open."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, body: dict | None = None, *, path: str = "/v1/chat/completions", **headers: str) -> Answer:
        method = "GET" if body is None else "POST"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.writer.write(make_request(body, path=path, method=method, headers={**KEEP, **named}))
        return await read_answer(self.reader)

    async def mark(self) -> str:
        answer = await self.ask(path="/healthz")
        return answer.headers["x-headworks-request-id"].partition("-")[0]

    def close(self) -> None:
        self.writer.close()


@dataclass
class Several:
    """The parent and its workers."""

    process: asyncio.subprocess.Process
    port: int
    lines: list[Line] = field(default_factory=list)

    def pids(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    async def workers(self, count: int = 2) -> list[Worker]:
        """Returns the workers when so many answer at their sockets and know of each other."""
        async with asyncio.timeout(20):
            while True:
                found = [one for pid in self.pids() if (one := await _worker(pid)) is not None]
                if len(found) == count and [await self._members(one) for one in found] == [count] * count:
                    return found
                await asyncio.sleep(0.05)

    async def _members(self, worker: Worker) -> int:
        try:
            answer = await (await self.inside(worker)).ask(path="/metrics")
        except (OSError, asyncio.IncompleteReadError):
            return 0
        return int(figure(answer.body, "headworks_gateway_members"))

    async def inside(self, worker: Worker) -> Line:
        """Returns a connection to a worker's internal address."""
        return self._kept(Line(*await asyncio.open_unix_connection(str(worker.socket))))

    async def open(self) -> Line:
        return self._kept(Line(*await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)))

    async def line_to(self, worker: Worker) -> Line:
        """Returns a connection to the public port that this worker has accepted."""
        async with asyncio.timeout(20):
            while True:
                line = await self.open()
                if await line.mark() == worker.mark:
                    return line
                line.close()

    async def metrics(self) -> bytes:
        line = await self.open()
        try:
            return (await line.ask(path="/metrics")).body
        finally:
            line.close()

    def _kept(self, line: Line) -> Line:
        self.lines.append(line)
        return line


def figure(metrics: bytes, series: str) -> float:
    """Returns the value of a series; 0 when there is none."""
    for line in metrics.decode().splitlines():
        if line.rpartition(" ")[0] == series:
            return float(line.rpartition(" ")[2])
    return 0.0


def owner_first(workers: list[Worker], deployment: str) -> list[Worker]:
    """Returns the workers, the owner of a deployment first."""
    chosen = owner(deployment, [one.id for one in workers])
    return sorted(workers, key=lambda one: one.id != chosen)


async def _worker(pid: int) -> Worker | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        at = words.index("--worker")
        own_id, folder = words[at + 1], words[at + 4]
        worker = Worker(pid, own_id, Path(folder) / f"{own_id}.sock")
        line = Line(*await asyncio.open_unix_connection(str(worker.socket)))
        worker.mark = await line.mark()
        line.close()
    except (OSError, ValueError, IndexError, asyncio.IncompleteReadError):
        return None
    return worker


@asynccontextmanager
async def several(
    folder: Path, snapshot: RoutingSnapshot, count: int = 2, **environment: str
) -> AsyncIterator[Several]:
    """Starts that many processes behind one port."""
    environment = {"HEADWORKS_GATEWAY_PROCESSES": str(count), **environment}
    async with process_of(folder, snapshot, **environment) as (process, port):
        group = Several(process, port)
        try:
            yield group
        finally:
            for line in group.lines:
                line.close()
            if process.returncode is None:
                process.terminate()
                await asyncio.wait_for(process.wait(), 20)
