"""Ends a gateway process whose event loop hangs, where no parent watches it: whoever started it starts it again.

Guarantees
    A loop that has made no turn for `silence.HUNG_AFTER_S`, in which it could have, ends the process by SIGKILL, after
    the log has been told where each thread stood. A machine on which nobody ran for a while is no hang, nor is a loop
    that waits for a CPU.
    Not seen: a process that is stopped as a whole (SIGSTOP, a frozen container), and code that never gives the
    interpreter back. For these there are the health checks of /healthz.
Concurrency
    A thread of its own looks every `silence.LOOK_S`; `turn` is called by the loop.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import threading
import time

from controlplane.gateway import silence
from controlplane.gateway.silence import Silence
from controlplane.lib import cpu_time

logger = logging.getLogger(__name__)


class Watchdog:
    """Watches the event loop of its own process."""

    def __init__(self) -> None:
        self._turns = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begins to watch."""
        self._thread.start()

    def turn(self) -> None:
        """The loop has made a turn."""
        self._turns += 1

    def stop(self) -> None:
        """Watches no longer."""
        self._ending.set()

    def _run(self) -> None:
        looked_at, held = time.monotonic(), None
        while not self._ending.wait(silence.LOOK_S):
            now, pid = time.monotonic(), os.getpid()
            late, looked_at = now - looked_at > 2 * silence.LOOK_S, now  # nobody ran then, as it seems
            if late or held is None or held.sign != self._turns:
                held = Silence(self._turns, now, cpu_time.read(pid))
            elif held.is_too_long(now, cpu_time.read(pid)):
                logger.critical("the event loop has hung for %.0f s; this process ends itself", now - held.since)
                faulthandler.dump_traceback(all_threads=True)
                os.kill(pid, signal.SIGKILL)
