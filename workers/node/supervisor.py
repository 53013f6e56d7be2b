"""The loop that makes the replicas of this node what the desired document wants.

Guarantees
    Engines are never ended because the control plane, Valkey or this worker is away. A replica's record is written
    before its state is reported. One replica's trouble (a full disk, a bug) does not stop the others.
Concurrency
    One thread owns all replicas. Documents, engine events and wishes to close come in through a queue or files.
"""

from __future__ import annotations

import logging
import queue
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from controlplane.domain import node_plan
from controlplane.domain.desired import NodeDesired
from controlplane.domain.lifecycle_events import Event, Tick
from controlplane.domain.observed import REPORT_EVERY_S
from engine_adapters.base import EngineAdapter
from workers.node import engine_log, identity, processes, records, reports
from workers.node.clock import Clock
from workers.node.companion import Companion
from workers.node.folder_lock import FolderLock
from workers.node.inventory import InventoryWatch
from workers.node.kept_replica import Surroundings
from workers.node.model_files import Looker, ModelFilesWatch
from workers.node.ports import PortRange
from workers.node.supervisor_closing import Closing
from workers.node.supervisor_link import DesiredLink
from workers.node.supervisor_replica import SupervisedReplica

logger = logging.getLogger(__name__)

STEP_S = 0.25
SIGN_OF_LIFE = "alive"  # a file that is touched while the loop turns; a container's health check looks at its age
SIGN_EVERY_S = 5.0
HOUSEKEEPING_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What one supervisor is told at its start."""

    name: str
    folder: Path
    address: str  # under which others reach this node's engines
    bind: str  # on which the engines listen
    engine_python: str
    code_root: str
    simulated: bool = False
    valkey_url: str | None = None  # None = from the environment


class Supervisor:
    """Keeps the replicas of one node. `start` and `stop` may each be called once."""

    def __init__(
        self,
        node: NodeSettings,
        inventory: InventoryWatch,
        ports: PortRange,
        get_adapter: Callable[[str], EngineAdapter],
        clock: Clock | None = None,
    ) -> None:
        self._node = node
        self._clock = clock or Clock()
        self._lock = FolderLock(node.folder)
        self._inventory = inventory
        self._inbox: queue.SimpleQueue[NodeDesired | tuple[str, Event]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._around = Surroundings(
            node.folder, node.address, node.bind, node.engine_python, inventory.engine_version, node.code_root, ports,
            get_adapter, self._deliver,
        )  # fmt: skip
        self._replicas: dict[str, SupervisedReplica] = {}  # replica id -> replica
        self._desired: NodeDesired | None = None
        # a simulated node has no files of its own
        self._files = None if node.simulated else ModelFilesWatch(Looker().look, self.wake)
        self._closing = Closing(node.folder)
        self._head = reports.ReportHead(node.name, node.address, node.simulated)
        self._publisher = reports.Publisher(node.valkey_url)
        self._link = DesiredLink(node.name, self._take, node.valkey_url)
        self._report_due = 0.0  # these are steady seconds
        self._housekeeping_due = 0.0
        self._sign_due = 0.0
        self._strays: set[tuple[int, int]] = set()  # (pid, start) of engines without a record, asked to end
        self._said: dict[str, str] = {}  # subject -> trouble that was logged last
        self._thread = threading.Thread(target=self._run, name=f"supervisor {node.name}", daemon=True)

    # -- from other threads ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Adopts what runs and begins to supervise."""
        self._node.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._lock.take():
            self._closing.clear()  # before this returns, so that a wish to close that follows is not cleared
        self._thread.start()

    def stop(self) -> None:
        """Ends the supervision. The engines go on; the next start adopts them."""
        self._ending.set()
        self._wake.set()
        self._thread.join(timeout=30)

    def wake(self) -> None:
        """Makes the loop look now instead of at its next step, and report."""
        self._report_due = 0.0
        self._wake.set()

    def _take(self, document: NodeDesired) -> None:
        self._inbox.put(document)
        self._wake.set()

    def _deliver(self, replica_id: str, event: Event) -> None:
        self._inbox.put((replica_id, event))
        self._wake.set()

    # -- the loop ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._lock.wait(self._ending):
                self._supervise()
        finally:
            self._lock.give_back()

    def _supervise(self) -> None:
        me = identity.begin(self._node.folder)
        self._head.machine, self._head.starts, self._link.machine = me.machine, me.starts, me.machine
        self._guarded("adoption", self._adopt)
        self._inventory.start()
        self._publisher.start()
        self._link.start()
        if self._files is not None:
            self._files.start()
        while not self._ending.is_set():
            self._guarded("the supervisor's step", self._step)
            self._wake.wait(STEP_S)
            self._wake.clear()
        self._link.stop()
        self._publisher.stop()
        self._inventory.stop()
        if self._files is not None:
            self._files.stop()

    def _guarded(self, subject: str, work: Callable[[], None]) -> None:
        """The one place that catches everything: whatever happens to one subject, the loop goes on."""
        try:
            work()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if self._said.get(subject) != text:  # four times a second would fill the disk
                logger.exception("trouble with %s; it is tried again", subject)
            self._said[subject] = text
        else:
            self._said.pop(subject, None)

    def _adopt(self) -> None:
        now, _ = self._clock.read()
        self._desired = records.read_desired(self._node.folder)
        self._ask_for_files()
        for replica_id in records.unreadable(self._node.folder):
            logger.error("the record of replica %s can't be read; its engine, if it runs, is ended", replica_id)
        for record in records.read_records(self._node.folder):
            self._guarded(f"replica {record.desired.replica_id}", partial(self._adopt_one, record, now))

    def _adopt_one(self, record: records.ReplicaRecord, now: float) -> None:
        self._replicas[record.desired.replica_id] = SupervisedReplica.restore(record, self._around, now)
        logger.info("replica %s is adopted as %s, pid %s", record.desired.replica_id, record.state, record.pid)

    def _step(self) -> None:
        now, set_by_s = self._clock.read()
        if set_by_s:
            logger.warning("the clock was set by %.0f s; nothing that runs takes notice", set_by_s)
            for replica in self._replicas.values():
                replica.clock_set(set_by_s)
        self._empty_inbox(now)
        self._closing.look()
        self._apply_plan(now)
        allowed = node_plan.may_start(one.occupant() for one in self._replicas.values())
        for replica_id, replica in list(self._replicas.items()):
            may_tick = replica.machine.state != "placed" or replica.machine.goal == "stop" or replica_id in allowed
            self._guarded(f"replica {replica_id}", partial(self._advance, replica, now, may_tick))
        self._closing.finish(all(one.machine.state == "stopped" for one in self._replicas.values()))
        self._report(now)
        steady = self._clock.steady()
        if steady >= self._sign_due:
            self._sign_due = steady + SIGN_EVERY_S
            (self._node.folder / SIGN_OF_LIFE).touch(mode=0o600)
            for one in self._companions():
                one.keep()
        if steady >= self._housekeeping_due:
            self._housekeeping_due = steady + HOUSEKEEPING_EVERY_S
            self._housekeep(now)

    def _empty_inbox(self, now: float) -> None:
        while True:
            try:
                item = self._inbox.get_nowait()
            except queue.Empty:
                return
            if isinstance(item, NodeDesired):
                self._take_over(item)
            elif item[0] in self._replicas:
                self._guarded(f"replica {item[0]}", partial(self._replicas[item[0]].handle, item[1], now))

    def _take_over(self, document: NodeDesired) -> None:
        before = self._desired
        if not node_plan.is_newer(document, before):
            return
        self._desired = document
        self._ask_for_files()
        if before is None or (before.version, before.replicas) != (document.version, document.replicas):
            self._report_due = 0.0
            self._guarded(
                "the copy of the desired document", partial(records.write_desired, self._node.folder, document)
            )

    def _ask_for_files(self) -> None:
        if self._files is not None and self._desired is not None:
            self._files.ask(self._desired.models)

    def _companions(self) -> list[Companion]:
        found = [self._link.companion, self._publisher.companion, self._inventory.companion]
        return found if self._files is None else [*found, self._files.companion]

    def _apply_plan(self, now: float) -> None:
        known = {replica_id: one.machine.state for replica_id, one in self._replicas.items()}
        for step in node_plan.plan(self._desired, known, self._closing.drain_s):
            match step:
                case node_plan.Add(wish=wish):
                    self._replicas[wish.replica_id] = SupervisedReplica.new(wish, self._around, now)
                case node_plan.Steer(replica_id=replica_id, wish=new_wish, event=event):
                    if new_wish is not None:
                        self._replicas[replica_id].set_wish(new_wish)
                    self._guarded(f"replica {replica_id}", partial(self._replicas[replica_id].handle, event, now))
                case node_plan.Forget(replica_id=replica_id):
                    records.remove_record(self._node.folder, replica_id)
                    del self._replicas[replica_id]
                    self._report_due = 0.0

    def _advance(self, replica: SupervisedReplica, now: float, may_tick: bool) -> None:
        replica.look(now)
        if may_tick:
            replica.handle(Tick(), now)
        if replica.changed:
            self._report_due = 0.0
            replica.save()

    def _report(self, now: float) -> None:
        inventory = self._inventory.newest
        if inventory is None or self._clock.steady() < self._report_due:
            return  # a report without accelerators would say that they are gone
        self._report_due = self._clock.steady() + REPORT_EVERY_S
        version = self._desired.version if self._desired else 0
        seen = self._files.newest if self._files is not None else None
        self._publisher.offer(
            reports.build(self._head, now, version, inventory, self._replicas.values(), model_files=seen)
        )
        self._inventory.own_sessions = {
            one.machine.pid: replica_id for replica_id, one in self._replicas.items() if one.machine.pid is not None
        }

    def _housekeep(self, now: float) -> None:
        for replica in self._replicas.values():
            engine_log.bound(replica.log_path)
        engine_log.prune(self._node.folder / "replicas", now)
        if self._desired is not None:
            self._guarded("engines without a record", self._end_strays)

    def _end_strays(self) -> None:
        """Ends engines of this node that are in no record and in no document: SIGTERM, next time SIGKILL."""
        found = processes.strays(self._node.folder / "replicas", self._replicas.keys())
        again = [one.pid for one in found if (one.pid, one.started_ticks) in self._strays]
        first = [one.pid for one in found if (one.pid, one.started_ticks) not in self._strays]
        if found:
            logger.warning("processes %s belong to engines that are in no record; they are ended", first + again)
        processes.send(first, signal.SIGTERM)
        processes.send(again, signal.SIGKILL)
        self._strays = {(one.pid, one.started_ticks) for one in found}
