"""The running stack: a table of processes that are kept alive, watched in one loop, and ended in order."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType

from controlplane.embedded import children, engines, logs, proc, say, settings
from controlplane.embedded.children import Child, Service
from controlplane.embedded.engines import Engine
from controlplane.embedded.layout import Layout
from controlplane.embedded.problems import LauncherError, in_words
from controlplane.embedded.proc import ProcessId

TICK_S = 0.2
BOUND_LOGS_EVERY_S = 5.0
DRAIN_S = 10
HURRY_S = 0.5
FAILURES_WHILE_STARTING = 4
# intake, and whatever would replace a drained engine
FIRST_TO_END = ("demo", "gateway", "controller", "beat", "worker")
SERVERS = ("valkey", "postgres")


class Stopped(Exception):
    """Somebody asked the launcher to end (Ctrl-C, `make down`, a closed terminal)."""


class Stack:
    """All processes of one installation. Nothing here starts a thread: a parent-death signal belongs to a thread."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.children: dict[str, Child] = {}
        self.stops_asked = 0
        self.is_in_a_hurry = False  # asked to end once more while it was ending
        self.followers: list[logs.Follower] = []
        self._is_ending = False
        self._is_noted = True  # the list of processes is on disk as it is
        self._has_complained = False
        self._logs_bounded_at = 0.0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ask_to_stop)

    def _ask_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stops_asked += 1
        self.is_in_a_hurry = self._is_ending

    # starting

    def start(self, service: Service) -> Child:
        """Starts a process and keeps it from now on."""
        child = Child(service, self.layout.logs / f"{service.name}.log", self.layout.root)
        self.children[service.name] = child
        child.start(time.monotonic())
        self._remember()
        return child

    def wait_ready(self, child: Child, limit_s: float) -> None:
        """Waits until a process is ready; raises LauncherError when it keeps failing or takes too long."""

        def ready_or_failed() -> bool:
            return child.failures >= FAILURES_WHILE_STARTING or (child.is_running() and child.service.ready())

        if not self.wait(ready_or_failed, limit_s):
            raise LauncherError(last_words(child, "does not become ready"))
        self.check_all_start()

    def check_all_start(self) -> None:
        """Raises LauncherError when a process has failed again and again; there is no use in waiting for the rest."""
        for child in self.children.values():
            if child.failures >= FAILURES_WHILE_STARTING:
                raise LauncherError(last_words(child, "can't be started"))

    def wait(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Keeps everything running until `condition` holds; False after `limit_s`. Raises Stopped when asked to."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() >= deadline:
                return False
            self.tick()
            time.sleep(TICK_S)
        return True

    # running

    def tick(self) -> None:
        """Looks after every process once; raises Stopped when somebody asked to end."""
        if self.stops_asked:
            raise Stopped
        for child in self.children.values():
            event = child.keep(time.monotonic())
            if event:
                say.step(event)
                self._is_noted = False
        if not self._is_noted:
            self._remember()
        self._look_after_logs()

    def run(self) -> None:
        """Keeps everything running until somebody asks to end (raises Stopped)."""
        while True:
            self.tick()
            time.sleep(TICK_S)

    def follow(self) -> None:
        """Shows from now on what the processes write."""
        self.followers = [logs.Follower(name, child.log) for name, child in self.children.items()]

    def _look_after_logs(self) -> None:
        for follower in self.followers:
            follower.show()
        now = time.monotonic()
        if now - self._logs_bounded_at >= BOUND_LOGS_EVERY_S:
            self._logs_bounded_at = now
            for path in self.layout.logs.glob("*.log"):
                logs.bound(path)

    def _remember(self) -> None:
        try:
            children.remember(list(self.children.values()), self.layout.home / "children.json")
        except OSError as error:  # a full disk; tried again with the next look
            if not self._has_complained:
                say.step(f"The list of processes can't be written: {in_words(error)}")
            self._is_noted, self._has_complained = False, True
        else:
            self._is_noted, self._has_complained = True, False

    # ending

    def stop(self, spared: Sequence[Engine] = ()) -> list[str]:
        """Ends everything in order and returns what could not be ended. A second signal cuts all waiting short.

        `spared` engines go on: they ran before a start that failed, and serve on when the next one succeeds.
        """
        self._is_ending = True
        for name in FIRST_TO_END:
            self._ask(name)
        if not spared:
            self._drain_engines()
        self._await(FIRST_TO_END)
        others = [name for name in self.children if name not in SERVERS]
        for name in others:
            self._ask(name)
        self._await(others)
        for name in SERVERS:
            self._ask(name)
            self._await([name])
        return sweep(self.layout, spared)

    def _drain_engines(self) -> None:
        nodes = [self.children[name] for name in ("node", "fleet") if name in self.children]
        running = engines.living(self.layout.home)
        if not running or not nodes:
            return
        what = "1 engine" if len(running) == 1 else f"{len(running)} engines"
        say.step(f"Draining {what}: running requests have {DRAIN_S} s, ending takes some seconds more")
        folders = sorted({engine.node for engine in running})
        deadline = time.monotonic() + DRAIN_S + 20
        while time.monotonic() < deadline and not self.is_in_a_hurry:
            for node in nodes:
                node.keep(time.monotonic())  # a node worker that dies now comes back and is asked again
            try:
                engines.ask_to_stop_all(folders, DRAIN_S)
            except OSError as error:
                say.step(f"Engines can't be asked to drain, they are ended: {in_words(error)}")
                return
            if engines.have_stopped(self.layout.home, folders):
                break
            time.sleep(TICK_S)

    def _ask(self, name: str) -> None:
        child = self.children.get(name)
        if child is not None and child.is_running() and child.wanted:
            say.step(f"Ending {name}")
        if child is not None:
            child.ask_to_end()

    def _await(self, names: tuple[str, ...] | list[str]) -> None:
        for name in names:
            child = self.children.get(name)
            if child is None:
                continue
            child.ask_to_end()
            if not self._ends(child):
                hurried = self.is_in_a_hurry
                say.step(f"Killing {name}" if hurried else f"{name} does not end by itself; killing it")
                child.kill()

    def _ends(self, child: Child) -> bool:
        """Waits for the end of a process; in a hurry not for one that has nothing to lose."""
        may_hurry = child.service.name not in SERVERS

        def ended_or_hurried() -> bool:
            return not child.is_running() or (may_hurry and self.is_in_a_hurry)

        proc.wait_until(ended_or_hurried, child.service.stop_patience_s)
        return not child.is_running() or proc.wait_until(lambda: not child.is_running(), HURRY_S)


def last_words(child: Child, what: str) -> str:
    """Returns a sentence on a process that does not work, with the end of its log."""
    last = " / ".join(line.strip() for line in logs.tail(child.log, 3)) or "it wrote nothing"
    return f"{child.service.name} {what}. Its last words: {last} (log: {child.log})"


def tidy(layout: Layout) -> None:
    """Removes what only a running stack needs; the data is kept."""
    layout.state.unlink(missing_ok=True)
    shutil.rmtree(layout.sockets, ignore_errors=True)


def sweep(layout: Layout, spared: Sequence[Engine] = ()) -> list[str]:
    """Ends whatever an installation has left running, engines included; returns what lives even then, in words."""
    left = engines.end([engine for engine in engines.living(layout.home) if engine not in spared], 10)
    return [describe(process) for process in [*left, *sweep_processes(layout)]]


def living_processes(layout: Layout) -> tuple[list[ProcessId], list[ProcessId]]:
    """Returns (servers, others): the launcher's processes that run without it, but no engine."""
    remembered = children.remembered(layout.home / "children.json")
    servers = [process for name, process in remembered.items() if name in SERVERS and proc.is_alive(process)]
    found = [process for name, process in remembered.items() if name not in SERVERS and proc.is_alive(process)]
    marked = proc.with_variable(settings.MARK, str(layout.home))
    found += [process for process in marked if process not in found and process not in servers]
    return servers, found


def sweep_processes(layout: Layout) -> list[ProcessId]:
    """Ends what a killed launcher has left running, but no engine; returns what lives even then."""
    servers, others = living_processes(layout)
    return proc.end(others, 10) + proc.end(servers, 20, first=signal.SIGINT)


def describe(process: ProcessId) -> str:
    """Returns a process in words."""
    return f"{process.pid} ({proc.command_line(process.pid)[:80]})"
