"""New lines of an engine's log file, followed over truncation and rotation.

Guarantees
    At most `MAX_BYTES_A_POLL` are read and `MAX_LINES_A_POLL` lines given a poll; what was skipped is said in a line.
    Secrets are replaced before a line leaves this module. A line longer than `MAX_LINE` characters is cut.
Concurrency
    One owner; blocking file reads of bounded size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from controlplane.lib import masking

MAX_BYTES_A_POLL = 256 * 1024
MAX_LINES_A_POLL = 200
FIRST_LINES = 500  # how much of an existing file is shown at first
MAX_LINE = 2000
_FIRST_BYTES = 128 * 1024

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class LogPlace:
    """How far a log was followed: the number of the last line given, and where in which file the next one begins."""

    n: int
    inode: int | None = None  # None = which file is not known
    offset: int = 0


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log: `n` counts its lines; the last one of a poll tells the place behind it."""

    n: int
    line: str
    place: LogPlace | None = None


class LogFollower:
    """Follows one log file, from a place where another follower left off or from its last lines on."""

    def __init__(self, path: Path, secrets: Iterable[str] = (), place: LogPlace | None = None) -> None:
        self._path = path
        self._secrets = [secret for secret in secrets if secret]
        self._inode = place.inode if place else None
        self._offset = place.offset if place else 0
        self._rest = b""  # an unfinished last line
        self._n = place.n if place else 0

    def poll(self) -> list[LogLine]:
        """Returns the lines that were finished since the last call."""
        try:
            with self._path.open("rb") as file:
                return self._numbered(self._read(file.fileno()))
        except OSError:
            return []  # not there yet, or just being rotated

    def _read(self, descriptor: int) -> list[str]:
        status = os.fstat(descriptor)
        notes: list[str] = []
        limit = MAX_LINES_A_POLL
        if self._inode is None:
            self._offset = max(0, status.st_size - _FIRST_BYTES)
            limit = FIRST_LINES
        elif status.st_ino != self._inode or status.st_size < self._offset:
            self._offset, self._rest = 0, b""
        cut = self._inode is None and self._offset > 0
        self._inode = status.st_ino
        behind = status.st_size - self._offset - MAX_BYTES_A_POLL
        if behind > 0:
            self._offset += behind
            self._rest = b""
            notes, cut = [f"… {behind} bytes left out: the engine writes faster than the log is shown …"], True
        lines = self._lines(os.pread(descriptor, MAX_BYTES_A_POLL, self._offset), first_is_cut=cut)
        if len(lines) > limit:
            left_out = len(lines) - limit
            if self._n:
                notes.append(f"… {left_out} lines left out …")
            lines = lines[-limit:]
        return notes + lines

    def _lines(self, data: bytes, *, first_is_cut: bool) -> list[str]:
        self._offset += len(data)
        pieces = (self._rest + data).split(b"\n")
        self._rest = pieces.pop()[-MAX_BYTES_A_POLL:]
        if first_is_cut and pieces:
            del pieces[0]
        return [self._clean(piece) for piece in pieces]

    def _clean(self, raw: bytes) -> str:
        # cut at last: half a secret would be recognised by nobody
        return masking.mask(_ESCAPES.sub("", raw.decode("utf-8", "replace")), self._secrets)[:MAX_LINE]

    def _numbered(self, lines: list[str]) -> list[LogLine]:
        first = self._n + 1
        self._n += len(lines)
        numbered = [LogLine(n, line) for n, line in enumerate(lines, first)]
        if numbered:
            place = LogPlace(self._n, self._inode, self._offset - len(self._rest))
            numbered[-1] = replace(numbered[-1], place=place)
        return numbered
