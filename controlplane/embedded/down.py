"""`make down`: ends a running stack, or what a killed launcher has left."""

from __future__ import annotations

import signal

from controlplane.embedded import engines, logs, proc, say, stack, state
from controlplane.embedded.layout import Layout

LIMIT_S = 150.0


def down(layout: Layout) -> int:
    """Ends everything of this data folder; returns 0 when no process is left."""
    running = state.read(layout.state)
    if running is not None:
        say.step(f"Ending Headworks (launcher {running.pid})")
        follower = logs.Follower("", layout.logs / "launcher.log", logs.as_own_step)
        follower.prefix = ""
        proc.send(running.process, signal.SIGTERM)

        def has_ended() -> bool:
            follower.show()
            return not proc.is_alive(running.process)

        if not proc.wait_until(has_ended, LIMIT_S):
            say.step(f"The launcher does not end within {LIMIT_S:.0f} s; killing it")
            proc.end([running.process], 1, first=signal.SIGKILL)
        follower.show()
    elif not anything_left(layout):
        say.line("Headworks is not running here.")
        return 0
    else:
        say.step("No launcher runs, but it has left processes behind; ending them")
    left = stack.sweep(layout)
    if left:
        say.problem(f"These processes could not be ended: {'; '.join(left)}")
        return 1
    stack.tidy(layout)
    if running is None:
        say.step("Everything has ended; the data is kept")
    return 0


def anything_left(layout: Layout) -> bool:
    """Returns whether engines or processes of this data folder run."""
    return bool(engines.living(layout.home)) or any(stack.living_processes(layout))
