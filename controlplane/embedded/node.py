"""Supervisor of a node's container: `python -m controlplane.embedded.node`, below an init that is PID 1.

Starts the node worker and the collector and restarts the one that dies, with back-off. Engines are children of neither;
they outlive both. On SIGTERM the node is drained first (nothing new, running requests may end), then both are ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from controlplane import env

COMMANDS: dict[str, list[str]] = {
    "node worker": [sys.executable, "-m", "workers.node"],
    "collector": [sys.executable, "-m", "workers.node.collector"],
}
BACKOFF_BASE_S = 1.0
BACKOFF_CAP_S = 30.0
STEADY_AFTER_S = 60.0
DRAIN_S = 60
END_S = 10.0


class Child:
    """One process that is kept running."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.started = 0.0
        self.failures = 0
        self.not_before = 0.0

    def keep(self, now: float) -> None:
        """Starts the process when it is not running and its back-off is over. `now` is monotonic seconds."""
        if self.process is not None:
            status = self.process.poll()
            if status is None:
                return
            self.failures = 1 if now - self.started > STEADY_AFTER_S else self.failures + 1
            pause = min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2 ** (self.failures - 1))
            say(f"{self.name} ended with {status}; again in {pause:.0f} s")
            self.process, self.not_before = None, now + pause
        if now >= self.not_before:
            self.process, self.started = subprocess.Popen(self.command), now

    def end(self) -> None:
        """Ends the process: SIGTERM, after `END_S` SIGKILL."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def say(text: str) -> None:
    print(f"node: {text}", file=sys.stderr, flush=True)


def node_folder() -> Path:
    name = env.read_str("HEADWORKS_NODE_NAME", os.uname().nodename.split(".")[0].lower())
    return env.headworks_home() / "node" / name


def drain(children: list[Child]) -> None:
    """Asks the supervisor of this node to end every engine, and waits for its word."""
    folder = node_folder()
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "stopped-all"
    done.unlink(missing_ok=True)
    wish = folder / "stop-all"
    deadline = time.monotonic() + DRAIN_S + 25
    while not done.exists() and time.monotonic() < deadline:
        for child in children:
            child.keep(time.monotonic())
        if not wish.exists() and not done.exists():  # a worker that had to be restarted takes an old wish away
            left_s = max(0.0, deadline - 25 - time.monotonic())
            wish.write_text(f"{left_s:.0f}", encoding="utf-8")
        time.sleep(0.2)
    say("all engines have ended" if done.exists() else "engines did not end in time")


def main() -> None:
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    children = [Child(name, command) for name, command in COMMANDS.items()]
    while not stopping:
        for child in children:
            child.keep(time.monotonic())
        time.sleep(0.2)
    say(f"draining, {DRAIN_S} s at most")
    drain(children)
    for child in children:
        child.end()


if __name__ == "__main__":
    main()
