"""What the launcher prints: steps with the time since the start. A closed terminal never stops it."""

from __future__ import annotations

import errno
import os
import sys
import time
from typing import TextIO

_VARIABLE = "HEADWORKS_LAUNCH_STARTED"
# handed on in the environment, since the launcher replaces itself by the interpreter of the control environment
_STARTED = float(os.environ.pop(_VARIABLE, "") or time.time())


def start_time_for_the_next() -> dict[str, str]:
    """Returns the variable by which the next program of this launch goes on counting."""
    return {_VARIABLE: repr(_STARTED)}


def elapsed_s() -> float:
    """Returns the seconds since the start."""
    return max(0.0, time.time() - _STARTED)


def line(text: str = "") -> None:
    """Prints a line as it is."""
    _print(text, sys.stdout)


def _print(text: str, file: TextIO) -> None:
    try:
        print(text, file=file, flush=True)
    except OSError as error:
        if error.errno != errno.ENOSPC:  # on a full disk what waits is written as soon as there is room
            # the reader is gone (closed terminal, `| head`); keep working and print nowhere from now on
            os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


def step(text: str) -> None:
    """Prints a step with the time since the start."""
    line(f"[{elapsed_s():6.1f} s] {text}")


def problem(text: str) -> None:
    """Prints what went wrong to standard error."""
    _print(f"headworks: {text}", sys.stderr)
