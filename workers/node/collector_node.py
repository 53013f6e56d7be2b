"""One node's second: scrape its engines, read its cards and logs, make parts.

Guarantees
    Each engine is scraped by a task of its own; one that is stuck delays nobody. Its part then has no engine values
    and the problem `no_answer`, and is tried again the next second.
Concurrency
    One owner loop; the tasks belong to it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.domain.errors import RefusedError
from controlplane.domain.lifecycle import State
from controlplane.lib import tasks, wire
from engine_adapters import registry
from engine_adapters.base import MetricNames
from workers.node.collector_cards import Cards, CpuUse, GroupMemory, of_replica, with_cpu_use, with_simulated_load
from workers.node.collector_engine import EngineWatch, Observation
from workers.node.collector_http import MetricsClient, ScrapeError
from workers.node.collector_logs import LogFollower, LogLine, LogPlace
from workers.node.collector_parts import NodeSeen, ReplicaSeen, accelerator_values
from workers.node.records import ReplicaRecord

logger = logging.getLogger(__name__)

SCRAPED_STATES: frozenset[State] = frozenset({"warming", "ready", "draining"})
FRESH_S = 1.6  # an answer that came after the last second's parts still counts for this second


class RecordReader:
    """The records of a node's replicas; a file is read again only when it changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "replicas"
        self._known: dict[Path, tuple[tuple[int, int, int], ReplicaRecord | None]] = {}

    def read(self) -> list[ReplicaRecord]:
        """Returns the records; one that can't be read is left out."""
        found: dict[Path, tuple[tuple[int, int, int], ReplicaRecord | None]] = {}
        for path in sorted(self._folder.glob("*/record.json")):
            try:
                status = path.stat()
                mark = (status.st_mtime_ns, status.st_ino, status.st_size)
                known = self._known.get(path)
                found[path] = known if known is not None and known[0] == mark else (mark, _decode(path))
            except OSError:
                continue  # gone meanwhile
        self._known = found
        return [record for _, record in found.values() if record is not None]


@dataclass(slots=True)
class _Engine:
    """What is kept of one engine process between seconds."""

    process: tuple[object, ...]
    client: MetricsClient
    watch: EngineWatch
    task: asyncio.Task[None] | None = None
    answer: tuple[float, Observation] | None = None
    problem: str = ""


class NodeCollector:
    """The collector of one node's folder."""

    def __init__(self, node: str, folder: Path, cards: Cards, use: CpuUse, memory: GroupMemory) -> None:
        self.node = node
        self._records = RecordReader(folder)
        self._cards, self._use, self._memory = cards, use, memory
        self._engines: dict[str, _Engine] = {}
        self._logs: dict[str, LogFollower] = {}
        self._current: list[ReplicaRecord] = []

    def begin(self) -> list[asyncio.Task[None]]:
        """Starts the second: asks the cards and every engine that is not still being asked; returns the open tasks."""
        self._current = self._records.read()
        self._cards.ask()
        self._forget_others()
        scrapes = []
        for record in self._current:
            if record.state in SCRAPED_STATES and record.url:
                engine = self._engine(record)
                if engine is None:
                    continue
                if engine.task is None or engine.task.done():
                    engine.task = asyncio.create_task(_scrape(engine))
                scrapes.append(engine.task)
        return scrapes

    def finish(self, at: float) -> NodeSeen:
        """Returns what is known at the end of the second."""
        scraped = [record for record in self._current if record.state in SCRAPED_STATES]
        said = {r.desired.replica_id: _engine_values(self._engines.get(r.desired.replica_id)) for r in scraped}
        running = {
            card.uuid: said[record.desired.replica_id][0].get("running") or 0.0
            for record in scraped
            for card in record.desired.accelerators
        }
        accelerators = with_simulated_load(with_cpu_use(self._cards.newest(), self._use), running)
        observed = {card.uuid: card for card in accelerators}
        groups = {record.process_group for record in scraped if _is_on_cores(record)}
        memory = self._memory.sample({group for group in groups if group is not None}, time.monotonic())
        seen = NodeSeen(self.node, at, accelerators=accelerators)
        for record in scraped:
            wish = record.desired
            values, problems = said[wish.replica_id]
            own = of_replica(wish.accelerators, observed, self._use, memory.get(record.process_group or -1))
            together = {**values, **accelerator_values(own)}
            seen.replicas.append(ReplicaSeen(wish.replica_id, wish.deployment, together, problems))
        return seen

    def logged(self) -> set[str]:
        """Returns the replicas that have a log."""
        return {record.desired.replica_id for record in self._current if record.log_path}

    def new_log_lines(self, places: Mapping[str, LogPlace | None]) -> dict[str, Sequence[LogLine]]:
        """Returns the new lines of the replicas' logs, by replica; a log whose place is not known yet waits."""
        found: dict[str, Sequence[LogLine]] = {}
        for record in self._current:
            replica_id = record.desired.replica_id
            if record.log_path and replica_id in places:
                follower = self._logs.get(replica_id)
                if follower is None:
                    follower = LogFollower(Path(record.log_path), (record.desired.key,), places[replica_id])
                    self._logs[replica_id] = follower
                lines = follower.poll()
                if lines:
                    found[replica_id] = lines
        return found

    async def close(self) -> None:
        """Ends the scrapes and closes the connections."""
        for engine in self._engines.values():
            await _end(engine)
        self._engines = {}
        await self._cards.close()

    def _engine(self, record: ReplicaRecord) -> _Engine | None:
        replica_id = record.desired.replica_id
        process = (record.url, record.pid, record.process_started_ticks, record.engine_version)
        engine = self._engines.get(replica_id)
        if engine is not None and engine.process == process:
            return engine
        names = _names(record)
        if names is None:
            return None
        if engine is not None:
            _abandon(engine)
        known = record.facts.kv_cache_tokens
        watch = EngineWatch(names, float(known) if known else None)
        self._engines[replica_id] = _Engine(process, MetricsClient(_root(record.url or "")), watch)
        return self._engines[replica_id]

    def _forget_others(self) -> None:
        alive = {record.desired.replica_id for record in self._current}
        scraped = {r.desired.replica_id for r in self._current if r.state in SCRAPED_STATES and r.url}
        for replica_id in self._engines.keys() - scraped:
            _abandon(self._engines.pop(replica_id))
        for replica_id in self._logs.keys() - alive:
            del self._logs[replica_id]


def _is_on_cores(record: ReplicaRecord) -> bool:
    return any(card.kind == "cpu" for card in record.desired.accelerators)


def _engine_values(engine: _Engine | None) -> tuple[Mapping[str, float | None], tuple[str, ...]]:
    if engine is None:
        return {}, ()
    if engine.answer is not None and time.monotonic() - engine.answer[0] <= FRESH_S:
        return engine.answer[1].values, engine.answer[1].problems
    return {}, (engine.problem,) if engine.problem else ()


async def _scrape(engine: _Engine) -> None:
    try:
        text = await engine.client.get()
    except ScrapeError as error:
        engine.problem, engine.answer = error.code, None
        return
    now = time.monotonic()
    engine.answer, engine.problem = (now, engine.watch.observe(text, now)), ""


def _abandon(engine: _Engine) -> None:
    if engine.task is not None:
        engine.task.cancel()
    engine.client.close()


async def _end(engine: _Engine) -> None:
    _abandon(engine)
    await tasks.end(engine.task)


def _names(record: ReplicaRecord) -> MetricNames | None:
    """The engine's metric names; None for an engine that tells nothing or is not known here."""
    try:
        adapter = registry.get(record.desired.spec.engine)
    except RefusedError:
        return None
    names = adapter.metric_names(record.engine_version or record.facts.engine_version)
    return names if names.running else None


def _root(url: str) -> str:
    """The address without the path of the OpenAI interface: metrics lie beside it."""
    return url.rstrip("/").removesuffix("/v1")


def _decode(path: Path) -> ReplicaRecord | None:
    try:
        return wire.decode(path.read_bytes(), ReplicaRecord)
    except wire.WireError as error:
        logger.warning("%s can't be understood: %s", path, error)
        return None
