"""Closing a node: the launcher asks by a file, and learns by another one that every engine is gone.

`stop-all` beside the node's records holds the drain limit in seconds. When nothing runs any more, `stopped-all`
takes its place. While either exists nothing is started; the next start of the worker removes both.
"""

from __future__ import annotations

import logging
from pathlib import Path

logger = logging.getLogger(__name__)

DEFAULT_DRAIN_S = 10.0


class Closing:
    """The two files of one node."""

    def __init__(self, folder: Path) -> None:
        self._asked = folder / "stop-all"
        self._done = folder / "stopped-all"
        self.drain_s: float | None = None  # None = the node is open

    def clear(self) -> None:
        """Removes what an earlier closing has left."""
        self._asked.unlink(missing_ok=True)
        self._done.unlink(missing_ok=True)

    def look(self) -> None:
        """Reads what is asked for."""
        if self._asked.exists():
            if self.drain_s is None:
                self.drain_s = self._read_limit()
                logger.info("the node is being closed, engines have %.0f s to finish", self.drain_s)
        elif not self._done.exists():
            self.drain_s = None

    def finish(self, nothing_runs: bool) -> None:
        """Tells the launcher that all engines are gone."""
        if self.drain_s is not None and nothing_runs and self._asked.exists():
            self._done.touch(mode=0o600)
            self._asked.unlink(missing_ok=True)
            logger.info("the node is closed, no engine is left")

    def _read_limit(self) -> float:
        try:
            return max(0.0, float(self._asked.read_text(encoding="ascii").strip() or DEFAULT_DRAIN_S))
        except (ValueError, FileNotFoundError):
            return DEFAULT_DRAIN_S
