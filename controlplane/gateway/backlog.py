"""Usage that Valkey has not taken, on disk, for the process that comes after this one.

Guarantees
    A reader sees the old or the new content, never a part; only the owner may read it. A batch keeps its id there, so
    one that was sent as well counts once. What earlier processes left is there until this one has kept or sent it.
    Of two writings under way at once the newer one stays.
Concurrency
    `replace` may be called from any thread; the rest from the one that owns it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from controlplane.domain.usage import UsageRow

logger = logging.getLogger(__name__)


class Batch:
    """Rows that are sent together, as often as it takes; they do not change any more."""

    __slots__ = ("encoded", "rows")

    def __init__(self, rows: Sequence[UsageRow]) -> None:
        self.rows = len(rows)
        self.encoded = msgspec.json.encode(rows)


class Backlog:
    """The file of one gateway process."""

    def __init__(self, folder: Path, slot: int, processes: int) -> None:
        self._path = _path(folder, slot)
        self._others = _left_over(folder, processes) if slot == 0 else []
        self._lock = threading.Lock()
        self._written = 0  # the number of the newest writing
        self._failed = False

    def load(self) -> list[Batch]:
        """Returns what earlier processes could not deliver."""
        found: list[Batch] = []
        taken = [path for path in (self._path, *self._others) if self._load(path, found)]
        if taken != [self._path] and taken and self.replace(1, found):
            for path in taken:
                if path != self._path:
                    path.unlink()
        return found

    def _load(self, path: Path, found: list[Batch]) -> bool:
        try:
            batches = msgspec.json.decode(path.read_bytes(), type=list[list[UsageRow]])
        except FileNotFoundError:
            return False
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            logger.error("undelivered usage in %s can't be read and is left aside: %s", path, error)
            _set_aside(path)
            return False
        found.extend(Batch(rows) for rows in batches if rows)
        return True

    def replace(self, number: int, batches: Sequence[Batch]) -> bool:
        """Makes these the content of the file, unless a writing with a higher number has begun; none = no file."""
        with self._lock:
            if number < self._written:
                return True
            self._written = number
            try:
                self._write(batches)
            except OSError as error:
                if not self._failed:
                    logger.error("undelivered usage can't be kept in %s: %s", self._path, error)
                self._failed = True
                return False
            self._failed = False
            return True

    def _write(self, batches: Sequence[Batch]) -> None:
        if not batches:
            self._path.unlink(missing_ok=True)
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._path.with_name(f"{self._path.name}.new")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(b"[" + b",".join(batch.encoded for batch in batches) + b"]")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


def _path(folder: Path, slot: int) -> Path:
    """Each of several processes has its own, named by its place and not by its id, so that the next one finds it."""
    return folder / (f"usage-backlog.{slot}.json" if slot else "usage-backlog.json")


def _left_over(folder: Path, processes: int) -> list[Path]:
    """What was left by processes for which there is no place any more."""
    taken = {_path(folder, slot) for slot in range(processes)}
    return sorted(path for path in folder.glob("usage-backlog.*.json") if path not in taken)


def _set_aside(path: Path) -> None:
    """Somebody may want to read it; under its old name it would be overwritten."""
    try:
        path.replace(path.with_name(f"{path.name}.unreadable"))
    except OSError:
        logger.debug("%s stays where it is", path)
