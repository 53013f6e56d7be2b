"""One replica under supervision: its machine, its process, and the work that the machine's instructions ask for.

Concurrency
    Everything here runs in the supervisor's thread. What may take long (probes, the warm-up generation) runs in
    helper threads, whose results come back as events through `Surroundings.deliver`.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from controlplane.domain import lifecycle_events as events
from controlplane.domain.desired import ReplicaDesired
from controlplane.domain.errors import RefusedError
from controlplane.domain.lifecycle import Reason
from controlplane.domain.observed import EngineFacts
from controlplane.domain.replica_machine import ReplicaMachine
from engine_adapters.base import EngineAdapter, LaunchPlace
from engine_adapters.environment import process_environment
from workers.node import engine_log, processes, records
from workers.node.kept_replica import KeptReplica, Surroundings
from workers.node.ports import NoPortError
from workers.node.probes import cache_config
from workers.node.supervisor_helpers import (
    Helpers,
    count_in_flight,
    count_progress,
    generation,
    probe_health,
    try_generation,
    warm_up,
)

logger = logging.getLogger(__name__)

PROBE_EVERY_S = {"starting": 0.5, "ready": 5.0}
PROGRESS_EVERY_S = 5.0
COUNT_EVERY_S = 0.5
DYING_S = 2.0  # how long the kernel may take to end a killed engine's threads before its end counts as unexplained
ROTATE_AT_START_BYTES = 4 * 1024 * 1024

Question = events.ProbeHealth | events.WarmUp | events.CountProgress | events.TryGeneration | events.CountInFlight


class SupervisedReplica(KeptReplica):
    """A replica that this node keeps and moves to where it is wished to be."""

    def __init__(self, wish: ReplicaDesired, machine: ReplicaMachine, around: Surroundings) -> None:
        super().__init__(wish, machine, around)
        self._cache_config: Mapping[str, str] = {}
        self._helpers = Helpers(wish.replica_id, lambda event: around.deliver(wish.replica_id, event))

    @classmethod
    def restore(cls, record: records.ReplicaRecord, around: Surroundings, now: float) -> SupervisedReplica:
        """Returns a replica as its record describes it, with the process that serves it if that still lives."""
        self = cls.recorded(record, around)
        self.machine.resume(now)
        if self.machine.launching:
            self._find_unrecorded(now)
        return self

    def _find_unrecorded(self, now: float) -> None:
        launch = self.machine.launch
        self.identity = processes.find_leader(self.log_path.parent)
        if self.identity is not None:
            self.handle(events.Launched(launch, self.identity.pid), now)
        else:
            text = "The node worker was restarted before the engine had been started."
            self.handle(events.LaunchFailed(launch, Reason("worker_restarted", text)), now)

    # -- events in ---------------------------------------------------------------------------------------------

    def set_wish(self, wish: ReplicaDesired) -> None:
        """Takes over the newest wish; its goal comes as an event of its own."""
        if wish != self.wish:
            self.wish, self.machine.limits, self.changed = wish, wish.limits, True

    def clock_set(self, by_s: float) -> None:
        """Tells that the wall clock was set by so many seconds."""
        self.machine.clock_set(by_s)
        self.changed = True

    def look(self, now: float) -> None:
        """Notices the end of the process."""
        if self.identity is None or self.machine.pid is None:
            return
        exit_text = processes.reap(self.identity)
        if exit_text is None and processes.is_alive(self.identity):
            return
        if self.machine.exit_phase != "kill":
            exit_text = exit_text or processes.reap(self.identity, DYING_S)
            reason = self._explain(exit_text or "how is not known, the node worker was restarted meanwhile")
            self.handle(events.Exited(self.machine.launch, reason), now)

    def handle(self, event: events.Event, now: float) -> None:
        """Gives an event to the machine and carries out what it answers."""
        machine = self.machine
        state, seq, drain_timeout_s = machine.state, machine.seq, machine.drain_timeout_s
        if isinstance(event, events.InFlight) and event.launch == machine.launch:
            self.in_flight = event.requests
        if isinstance(event, events.WarmedUp) and event.launch == machine.launch:
            self._cache_config = event.cache_config
        instructions = machine.handle(event, now)
        self.changed |= machine.seq != seq or machine.drain_timeout_s != drain_timeout_s
        for one in machine.transitions:
            if one.seq > seq:
                logger.info(
                    "replica %s of %s: %s -> %s (%s: %s) cause=%s",
                    machine.replica_id, self.wish.deployment, one.from_state, one.to_state, one.reason.code,
                    one.reason.message, one.cause or self.wish.cause or "-",
                )  # fmt: skip
        if machine.state != state:
            self._state_changed(now)
        for instruction in instructions:
            self._carry_out(instruction, now)

    def _state_changed(self, now: float) -> None:
        if self.machine.state == "ready":
            launched_at = [one.at for one in self.machine.transitions if one.seq == self.machine.launch]
            facts = self._adapter().read_facts(engine_log.lines(self.log_path))
            took_s = now - launched_at[0] if launched_at else -1.0
            took = took_s if took_s >= 0 else None  # the clock may have been set back
            self.facts = replace(facts, start_s=took, cache_config=self._cache_config)
        if self.machine.state != "draining":
            self.in_flight = None
        if self.machine.pid is None:
            self._release()

    def _release(self) -> None:
        if self.port is not None:
            self._around.ports.give_back(self.port)
        self.identity = self.port = self.url = None
        self.changed = True

    # -- instructions out --------------------------------------------------------------------------------------

    def _carry_out(self, instruction: events.Instruction, now: float) -> None:
        match instruction:
            case events.Launch(launch=launch, attempt=attempt):
                self._launch(launch, attempt, now)
            case (
                events.ProbeHealth()
                | events.WarmUp()
                | events.CountProgress()
                | events.TryGeneration()
                | events.CountInFlight()
            ):
                self._ask(instruction)
            case events.SignalGroup(signal=name):
                if self.identity is not None:
                    number = signal.SIGTERM if name == "TERM" else signal.SIGKILL
                    processes.signal_all(self.identity, self.log_path.parent, number)
            case events.ConfirmGone():
                if self.identity is None or processes.is_gone(self.identity, self.log_path.parent):
                    self.handle(events.GroupGone(self.machine.launch), now)
                    self._release()

    def _launch(self, launch: int, attempt: int, now: float) -> None:
        try:
            adapter = self._adapter()
            if not adapter.managed:
                raise RefusedError("not_managed", f"Headworks does not start processes of the engine {adapter.name}.")
            self._start_process(adapter, attempt, now)
        except RefusedError as error:
            reason = Reason(error.code, error.message, error.hint)
        except NoPortError as error:
            reason = Reason("no_port", str(error))
        except OSError as error:
            text = f"The engine's process could not be started: {error.strerror or error}"
            file = f" ({error.filename})" if error.filename else ""
            hint = "Look whether the engine's environment is installed and the disk has room."
            reason = Reason("launch_failed", f"{text}{file}.", hint)
        else:
            assert self.identity is not None
            self.handle(events.Launched(launch, self.identity.pid), now)
            self.save()
            return
        self.handle(events.LaunchFailed(launch, reason), now)

    def _start_process(self, adapter: EngineAdapter, attempt: int, now: float) -> None:
        around, replica_id = self._around, self.machine.replica_id
        self._end_leftovers()
        folder = records.replica_folder(around.folder, replica_id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.port = around.ports.take(around.bind)
        place = LaunchPlace(
            replica_id, around.bind, self.port, self.wish.key, self.wish.accelerators, around.engine_python,
            around.code_root, str(folder), around.engine_version(adapter.name),
        )  # fmt: skip
        command = adapter.command(self.wish.spec, place)
        self.command = command.argv
        host = f"[{around.address}]" if ":" in around.address else around.address
        self.url = f"http://{host}:{self.port}"
        self.facts, self._cache_config = EngineFacts(), {}
        engine_log.bound(self.log_path, ROTATE_AT_START_BYTES)
        engine_log.write_headline(self.log_path, attempt, now)
        self.save()  # before the process exists, so that one whose pid was never written down is looked for
        env = process_environment(os.environ, command)
        self.identity = processes.start(command.argv, env, self.log_path, folder)

    def _end_leftovers(self) -> None:
        """After its record was lost a replica begins anew while its engine still runs and holds the accelerators."""
        left = processes.marked(self.log_path.parent)
        if left:
            processes.send([one.pid for one in left], signal.SIGKILL)
            text = "An engine of this replica was still running although its record is lost; it was killed."
            raise RefusedError("leftover_engine", text, hint="The start is tried again by itself.")

    def _ask(self, instruction: Question) -> None:
        launch, url, identity, adapter = self.machine.launch, self.url, self.identity, self._adapter()
        if url is None or identity is None:
            return
        match instruction:
            case events.ProbeHealth():
                every_s = PROBE_EVERY_S.get(self.machine.state, 1.0)
                self._helpers.run("health", launch, every_s, partial(probe_health, launch, url, adapter.health_path))
            case events.WarmUp(timeout_s=timeout_s):
                generate = generation(url, adapter.warm_up(self.wish.spec), self.wish.key, timeout_s)
                labels = partial(cache_config, url, adapter.metric_names(None))  # the log tells the version later
                self._helpers.run(
                    "warm-up", launch, 0.0, partial(warm_up, launch, identity, generate, self._tail, labels)
                )
            case events.TryGeneration(timeout_s=timeout_s):
                generate = generation(url, adapter.warm_up(self.wish.spec), self.wish.key, timeout_s)
                self._helpers.run("generation", launch, 0.0, partial(try_generation, launch, generate))
            case events.CountProgress():
                names = adapter.metric_names(self.facts.engine_version)
                self._helpers.run("progress", launch, PROGRESS_EVERY_S, partial(count_progress, launch, url, names))
            case events.CountInFlight():
                names = adapter.metric_names(self.facts.engine_version)
                self._helpers.run("count", launch, COUNT_EVERY_S, partial(count_in_flight, launch, url, names))
