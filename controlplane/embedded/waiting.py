"""Waits for the deployments after a start, saying every few seconds what is going on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from controlplane.embedded import engine_words, logs, readiness, say
from controlplane.embedded.layout import Layout
from controlplane.embedded.settings import LaunchSettings
from controlplane.embedded.stack import Stack

READY_LIMIT_S = 420.0
NODES_KNOWN_AFTER_S = 30.0
SAY_EVERY_S = 10.0
LOG_LINES = 100


class Waiting:
    """What was seen last and when it was said."""

    def __init__(self, layout: Layout, chosen: LaunchSettings, first_run: dict[str, Any]) -> None:
        self.layout = layout
        self.chosen = chosen
        self.first_run = first_run
        self.begun = self.said_at = time.monotonic()
        self.said = ""
        self.last = readiness.Progress()

    def settled(self) -> bool:
        """Looks once and returns whether there is nothing more to wait for."""
        known = time.monotonic() - self.begun > NODES_KNOWN_AFTER_S
        self.last = readiness.progress(self.first_run, self.chosen, nodes_are_known=known)
        self._say()
        if self.last.waiting:
            return False
        return self.first_run.get("model") not in self.last.serving or readiness.answers(self.first_run, self.chosen)

    def _say(self) -> None:
        now = time.monotonic()
        what = self.last.waiting or ("a first answer" if self.said else "")
        if what and what != self.said:
            say.step(f"Waiting for {what}")
        elif what and now - self.said_at >= SAY_EVERY_S:
            say.step(f"  … {what}, {now - self.begun:.0f} s{newest_words(self.layout)}")
        else:
            return
        self.said, self.said_at = what, now


def wait_for_deployments(running: Stack, layout: Layout, chosen: LaunchSettings, first_run: dict[str, Any]) -> str:
    """Waits until each deployment serves or will not, and the first one has really answered.

    Returns what is not ready, in words; only what concerns the first deployment (others may need other machines).
    """
    state = Waiting(layout, chosen, first_run)

    def settled() -> bool:
        running.check_all_start()
        return state.settled()

    in_time = running.wait(once_a_second(settled), READY_LIMIT_S)
    if not in_time:
        what = state.last.waiting or f"an answer of {first_run.get('model')}"
        return (
            f"Not ready after {READY_LIMIT_S / 60:.0f} minutes: {what}{newest_words(layout)}. make doctor tells more."
        )
    if state.last.problem:
        say.step(state.last.problem)
    return state.last.problem if first_run.get("model") in state.last.lost else ""


def once_a_second(condition: Callable[[], bool]) -> Callable[[], bool]:
    """Returns the condition so that it is looked at once a second and false in between."""
    asked = 0.0

    def looked_at_slowly() -> bool:
        nonlocal asked
        if time.monotonic() - asked < 1.0:
            return False
        asked = time.monotonic()
        return condition()

    return looked_at_slowly


def newest_words(layout: Layout) -> str:
    """Returns what the engine that wrote last says of itself, after a colon."""
    found = sorted((layout.home / "node").glob("*/replicas/*/engine.log"), key=lambda path: path.stat().st_mtime)
    words = engine_words.newest(logs.tail(found[-1], LOG_LINES)) if found else ""
    return f": {words}" if words else ""
