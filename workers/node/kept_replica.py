"""What a node keeps of one replica: its wish, its machine, its process, and the record from which all of it is made
again. `supervisor_replica` moves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from controlplane.domain import lifecycle_events as events
from controlplane.domain.desired import ReplicaDesired
from controlplane.domain.errors import RefusedError
from controlplane.domain.lifecycle import Reason
from controlplane.domain.node_plan import Occupant
from controlplane.domain.observed import EngineFacts
from controlplane.domain.replica_machine import ReplicaMachine
from controlplane.domain.replica_state import first_seq
from controlplane.lib import masking
from engine_adapters.base import EngineAdapter
from workers.node import engine_log, processes, records
from workers.node.ports import PortRange

TAIL_LINES = 30


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all replicas of a node share."""

    folder: Path
    address: str  # under which others reach the engines
    bind: str  # on which the engines listen
    engine_python: str
    engine_version: Callable[[str], str]  # of an engine by its name, "" when it is not known
    code_root: str
    ports: PortRange
    get_adapter: Callable[[str], EngineAdapter]
    deliver: Callable[[str, events.Event], None]  # thread-safe


class KeptReplica:
    """A replica that this node keeps."""

    def __init__(self, wish: ReplicaDesired, machine: ReplicaMachine, around: Surroundings) -> None:
        self.wish = wish
        self.machine = machine
        self.identity: processes.Identity | None = None
        self._started_at: tuple[processes.Identity, float] | None = None
        self.port: int | None = None
        self.url: str | None = None
        self.command: tuple[str, ...] = ()
        self.facts = EngineFacts()
        self.in_flight: int | None = None
        self.changed = True  # not yet written to disk
        self._around = around

    @classmethod
    def new(cls, wish: ReplicaDesired, around: Surroundings, now: float) -> Self:
        """Returns a replica that has just been placed here."""
        machine = ReplicaMachine(
            wish.replica_id,
            wish.limits,
            since=now,
            goal=wish.goal,
            seq=first_seq(now),
            drain_timeout_s=wish.drain_timeout_s,
        )
        return cls(wish, machine, around)

    @classmethod
    def recorded(cls, record: records.ReplicaRecord, around: Surroundings) -> Self:
        """Returns a replica exactly as its record describes it."""
        wish = record.desired
        machine = ReplicaMachine(
            wish.replica_id, wish.limits, record.state, record.since, record.goal, record.seq, record.attempt,
            record.retry_at, record.pid, record.launch, record.exit_phase, record.exit_since, record.drain_timeout_s,
            list(record.transitions),
        )  # fmt: skip
        self = cls(wish, machine, around)
        self.port, self.url, self.command, self.facts = record.port, record.url, record.command, record.facts
        if record.port is not None:
            around.ports.hold(record.port)
        if record.pid is not None and record.process_started_ticks is not None:
            self.identity = processes.Identity(record.pid, record.process_started_ticks, record.process_place)
            if record.process_started_at is not None:
                self._started_at = (self.identity, record.process_started_at)
        return self

    @property
    def log_path(self) -> Path:
        """Where the engine's output goes."""
        return records.replica_folder(self._around.folder, self.machine.replica_id) / "engine.log"

    def occupant(self) -> Occupant:
        """Returns this replica as the order of starts sees it."""
        machine = self.machine
        has_process = machine.pid is not None or machine.launching
        uuids = tuple(one.uuid for one in self.wish.accelerators)
        return Occupant(machine.replica_id, machine.state, machine.since, has_process, machine.exit_phase, uuids)

    def is_simulated(self) -> bool:
        """Returns whether what this replica says is made up."""
        try:
            return self._adapter().simulated
        except RefusedError:
            return False  # an engine that this node does not know; its launch says so

    def save(self) -> None:
        """Writes the record."""
        records.write_record(self._around.folder, self.record())
        self.changed = False

    def record(self) -> records.ReplicaRecord:
        """Returns what a later worker needs to go on with this replica."""
        machine, identity = self.machine, self.identity
        return records.ReplicaRecord(
            desired=self.wish,
            state=machine.state,
            since=machine.since,
            goal=machine.goal,
            seq=machine.seq,
            attempt=machine.attempt,
            retry_at=machine.retry_at,
            exit_phase=machine.exit_phase,
            exit_since=machine.exit_since,
            drain_timeout_s=machine.drain_timeout_s,
            transitions=tuple(machine.transitions),
            launch=machine.launch,
            pid=machine.pid,
            process_started_ticks=identity.started_ticks if identity else None,
            process_place=identity.place if identity else "",
            process_started_at=self._process_started_at(),
            process_group=machine.pid,
            port=self.port,
            url=self.url,
            log_path=str(self.log_path),
            command=self.command,
            engine_version=self.facts.engine_version,
            facts=self.facts,
        )

    def _process_started_at(self) -> float | None:
        """Read once: the kernel's idea of when it booted moves with the clock, and the start of a process must not."""
        if self.identity is None:
            return None
        if self._started_at is None or self._started_at[0] != self.identity:
            self._started_at = (self.identity, processes.started_at(self.identity))
        return self._started_at[1]

    def _adapter(self) -> EngineAdapter:
        return self._around.get_adapter(self.wish.spec.engine)

    def _tail(self) -> tuple[str, ...]:
        return self._masked(*engine_log.telling(engine_log.lines(self.log_path), TAIL_LINES))

    def _masked(self, *texts: str) -> tuple[str, ...]:
        return tuple(masking.mask(text, (self.wish.key,)) for text in texts)

    def _explain(self, exit_text: str) -> Reason:
        lines = engine_log.lines(self.log_path)
        try:
            code, sentence, hint = self._adapter().explain_exit(lines, exit_text)
        except RefusedError as error:  # adopted by a worker that no longer knows this engine
            code, sentence, hint = "engine_ended", f"The engine ended ({exit_text}).", error.message
        sentence, hint = self._masked(sentence, hint)  # engines' own words may be quoted
        return Reason(code, sentence, hint, self._masked(*engine_log.telling(lines, TAIL_LINES)))
