"""One supervisor a node: two that keep the same folder would each start every engine."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from pathlib import Path

logger = logging.getLogger(__name__)

TRY_EVERY_S = 0.5


class FolderLock:
    """The right to keep a node's folder. The kernel gives it back when the process ends, however it ends; engines do
    not inherit it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Takes the lock unless another supervisor, of whatever process, has it; returns whether it is ours."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def wait(self, ending: threading.Event) -> bool:
        """Waits for the lock; returns False when `ending` was set before it came."""
        if self.take():
            return True
        logger.error("another node worker keeps %s; this one waits until it has ended", self._path.parent)
        while not ending.wait(TRY_EVERY_S):
            if self.take():
                logger.info("%s is kept by this node worker now", self._path.parent)
                return True
        return False

    def give_back(self) -> None:
        """Lets the next one have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
