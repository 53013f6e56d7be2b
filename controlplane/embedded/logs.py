"""Log files of the processes: each writes its own by itself, the launcher bounds them and shows them with a prefix.

Nothing goes through a pipe of the launcher, so neither a stopped terminal nor a killed launcher can block a process.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from controlplane.embedded import say

LIMIT_BYTES = 8_000_000
SHOW_AT_ONCE_BYTES = 64_000


def bound(path: Path, limit_bytes: int = LIMIT_BYTES) -> bool:
    """Moves the content of a log that became too long to `<name>.1` and returns whether it did.

    The writer keeps its descriptor (opened for appending), so it goes on at the start of the emptied file.
    """
    try:
        if path.stat().st_size <= limit_bytes:
            return False
        _keep_old(path)
        with open(path, "r+b") as file:
            file.truncate(0)
    except FileNotFoundError:
        return False
    return True


def _keep_old(path: Path) -> None:
    old = path.with_name(path.name + ".1")
    try:
        shutil.copyfile(path, old)
    except FileNotFoundError:
        raise
    except OSError:  # a full disk: the room is needed more than the old lines
        old.unlink(missing_ok=True)


def tail(path: Path, lines: int, limit_bytes: int = 64_000) -> list[str]:
    """Returns the last lines of a file; none when it is not there."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit_bytes))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-lines:]


_TIME_OF_A_STEP = re.compile(r"^\[ *[\d.]+ s\] ")


def as_own_step(text: str) -> None:
    """Prints what another launcher wrote; its steps get the time since the start of this one."""
    step = _TIME_OF_A_STEP.match(text)
    if step:
        say.step(text[step.end() :])
    else:
        say.line(text)


class Follower:
    """Shows what is added to a log file, each line with the name of the process."""

    def __init__(self, name: str, path: Path, show_line: Callable[[str], None] = say.line) -> None:
        self.prefix = f"{name:>10} | "
        self.show_line = show_line
        self.path = path
        self.position = self._size()
        self.rest = b""

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def show(self) -> None:
        """Prints the lines that were added since the last call."""
        size = self._size()
        if size < self.position:  # emptied by `bound`
            self.position = 0
        if size == self.position:
            return
        with open(self.path, "rb") as file:
            file.seek(self.position)
            data = self.rest + file.read(SHOW_AT_ONCE_BYTES)
            self.position = file.tell()
        *whole, self.rest = data.split(b"\n")
        for text in whole:
            self.show_line(self.prefix + text.decode(errors="replace"))
