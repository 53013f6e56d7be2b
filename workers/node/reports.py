"""What the supervisor tells the control plane: building the report, and the thread that sends the newest one."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import redis

from controlplane.domain.lifecycle import Transition
from controlplane.domain.model_files import ModelFilesLook
from controlplane.domain.observed import REPORT_SCHEMA, NodeReport, ReplicaObserved
from controlplane.lib import ids, keys, valkey, wire
from workers.node.companion import Companion
from workers.node.inventory import Inventory
from workers.node.supervisor_replica import SupervisedReplica

logger = logging.getLogger(__name__)

# Reports are whole and repeated, so only the newest of each node counts; the stream needs no long memory.
STREAM_LENGTH = 2000
REPORTED_TRANSITIONS = 12
REPORTED_TAILS = 2  # of the newest failures; a crash loop must not make every report large
RETRY_S = 1.0


@dataclass(slots=True)
class ReportHead:
    """What stays the same over all reports of one start of the supervisor, and the counter within it."""

    node: str
    address: str
    simulated: bool = False
    machine: str = ""
    starts: int = 0
    incarnation: str = field(default_factory=ids.new_id)
    sequence: int = 0


def observe(replica: SupervisedReplica) -> ReplicaObserved:
    """Returns one replica as the control plane shall see it."""
    record = replica.record()
    return ReplicaObserved(
        replica_id=record.desired.replica_id,
        state=record.state,
        since=record.since,
        goal=record.goal,
        seq=record.seq,
        attempt=record.attempt,
        retry_at=record.retry_at,
        pid=record.pid,
        process_started_at=record.process_started_at,
        url=record.url,
        log_path=record.log_path,
        command=record.command,
        in_flight=replica.in_flight,
        facts=record.facts,
        transitions=shorten(record.transitions),
        simulated=replica.is_simulated(),
    )


def shorten(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """Returns the newest transitions, of which only the newest failures keep their log lines."""
    kept: list[Transition] = []
    tails = 0
    for one in reversed(transitions[-REPORTED_TRANSITIONS:]):
        if one.reason.log_tail:
            tails += 1
        kept.append(one if tails <= REPORTED_TAILS else replace(one, reason=replace(one.reason, log_tail=())))
    return tuple(reversed(kept))


def build(
    head: ReportHead,
    now: float,
    version: int,
    inventory: Inventory,
    replicas: Iterable[SupervisedReplica],
    *,
    model_files: ModelFilesLook | None = None,
) -> NodeReport:
    """Returns the next report of this node; `version` is that of the desired document last carried out."""
    head.sequence += 1
    return NodeReport(
        schema=REPORT_SCHEMA,
        node=head.node,
        incarnation=head.incarnation,
        sequence=head.sequence,
        reported_at=now,
        address=head.address,
        worker_pid=os.getpid(),
        desired_version=version,
        accelerators=inventory.accelerators,
        replicas=tuple(observe(one) for one in replicas),
        engines=inventory.engines,
        cpu_count=inventory.cpu_count,
        memory_total_bytes=inventory.memory_total_bytes,
        memory_available_bytes=inventory.memory_available_bytes,
        simulated=head.simulated,
        topology=inventory.topology,
        machine=head.machine,
        starts=head.starts,
        model_files=model_files,
    )


class Publisher:
    """Sends the newest report from a thread of its own, so that a slow or dead Valkey never holds up the supervisor.

    A report that could not be sent is replaced by the next one; it is whole, so nothing is lost.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._waiting: bytes | None = None
        self._condition = threading.Condition()
        self._ending = False
        self.companion = Companion("reports", self._run)

    def start(self) -> None:
        """Begins to send."""
        self.companion.start()

    def offer(self, report: NodeReport) -> None:
        """Hands over the newest report; returns at once."""
        data = wire.encode(report)
        with self._condition:
            self._waiting = data
            self._condition.notify()

    def stop(self) -> None:
        """Sends what waits, once, and ends."""
        with self._condition:
            self._ending = True
            self._condition.notify()
        self.companion.join(valkey.CONNECT_TIMEOUT_S + valkey.ANSWER_TIMEOUT_S + RETRY_S)

    def _run(self) -> None:
        client = valkey.connect(self._address)
        down = False
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting is not None or self._ending)
                data, self._waiting = self._waiting, None
                ending = self._ending
            if data is not None:
                down = self._send(client, data, down)
            if ending:
                client.close()
                return

    def _send(self, client: redis.Redis, data: bytes, was_down: bool) -> bool:
        try:
            client.xadd(keys.observations(), {"report": data}, maxlen=STREAM_LENGTH, approximate=True)
        except valkey.ERRORS as error:
            if not was_down:
                logger.warning("reports can't be sent, the newest is sent again until it works: %s", error)
            with self._condition:
                if self._waiting is None:
                    self._waiting = data
                self._condition.wait_for(lambda: self._ending, timeout=RETRY_S)
            return True
        if was_down:
            logger.info("reports are sent again")
        return False
