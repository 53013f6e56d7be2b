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
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES_A_POLL = 256 * 1024
MAX_LINES_A_POLL = 200
FIRST_LINES = 500  # how much of an existing file is shown at first
MAX_LINE = 2000
_FIRST_BYTES = 128 * 1024

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
# keys as Headworks and others write them, and whatever follows "Bearer" or stands behind an obvious name
_SECRETS = re.compile(
    r"\b(?:hw|hwr|hwt|sk|hf)[-_][A-Za-z0-9_\-]{16,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=\-]{8,}"
    r"|(?i:(?<=api_key=)|(?<=api-key=)|(?<=token=)|(?<=password=))[^\s&'\",)]{4,}"
)
_MASK = "•••"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log: `n` counts the lines since the follower began."""

    n: int
    line: str


class LogFollower:
    """Follows one log file from its last lines on."""

    def __init__(self, path: Path, secrets: Iterable[str] = (), *, skip_existing: bool = False) -> None:
        self._path = path
        self._secrets = [secret for secret in secrets if secret]
        self._skip_existing = skip_existing
        self._inode: int | None = None
        self._offset = 0
        self._rest = b""  # an unfinished last line
        self._n = 0

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
            self._offset = status.st_size if self._skip_existing else max(0, status.st_size - _FIRST_BYTES)
            limit = FIRST_LINES
        elif status.st_ino != self._inode or status.st_size < self._offset:
            self._offset, self._rest = 0, b""
        cut = self._inode is None and self._offset > 0 and not self._skip_existing
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
        line = _ESCAPES.sub("", raw.decode("utf-8", "replace"))[:MAX_LINE]
        return mask(line, self._secrets)

    def _numbered(self, lines: list[str]) -> list[LogLine]:
        first = self._n + 1
        self._n += len(lines)
        return [LogLine(n, line) for n, line in enumerate(lines, first)]


def mask(line: str, secrets: Iterable[str] = ()) -> str:
    """Returns a line with the given secrets, and whatever looks like one, replaced."""
    for secret in secrets:
        if secret in line:
            line = line.replace(secret, _MASK)
    return _SECRETS.sub(_MASK, line)
