"""A thread beside the supervisor that is begun anew when it has ended by a fault.

Without it a node whose reports, documents or inventory died of an error that nobody thought of would look alive and
be deaf, mute or blind until its next restart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Companion:
    """Runs `work` in a daemon thread. `start`, `keep` and `join` belong to one owner."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._thread = self._make()

    def _make(self) -> threading.Thread:
        return threading.Thread(target=self._work, name=self._name, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def keep(self) -> None:
        """Begins anew if the thread has ended by itself; its traceback is in the log. Not after it was told to end."""
        if not self._thread.is_alive():
            logger.error("the thread %s had ended and is begun anew", self._name)
            self._thread = self._make()
            self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Waits until it has ended, at most so long."""
        self._thread.join(timeout=timeout_s)
