"""Runs a long program quietly: its output goes to a log file, and now and then a line says that work goes on."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from controlplane.embedded import say
from controlplane.embedded.problems import LauncherError, last_words

SAY_EVERY_S = 10.0
LOG_LIMIT_BYTES = 4_000_000
# ends with the launcher even if that is killed: an installer that went on alone would meet the next launcher's
GUARD = ("setpriv", "--pdeathsig", "KILL")


def run_saying(
    command: list[str],
    what: str,
    log: Path,
    *,
    explain: Callable[[str], str] | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """Runs `command` and returns its output; raises LauncherError with one sentence when it fails.

    `explain` turns the output of a failed run into that sentence.
    """
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with open(log, "ab") as file:
        start = file.tell()
        try:
            process = subprocess.Popen(
                [*GUARD, *command], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=cwd,
                start_new_session=True,
                env={**(os.environ if environ is None else environ), "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        except OSError as error:
            raise LauncherError(f"{command[0]} can't be run while {what}: {error.strerror}.") from error
        _wait(process, what, log, start)
    output = _since(log, start)
    if process.returncode != 0:
        sentence = explain(output) if explain else f"Something failed while {what}: {last_words(output)}"
        raise LauncherError(f"{sentence} (Details: {log})")
    return output


def _wait(process: subprocess.Popen[bytes], what: str, log: Path, start: int) -> None:
    begun = said = time.monotonic()
    try:
        while process.poll() is None:
            time.sleep(0.05)
            now = time.monotonic()
            if now - said >= SAY_EVERY_S:
                said = now
                say.step(f"  … {what}, {now - begun:.0f} s{_newest_line(log, start)}")
    finally:
        if process.returncode is None:  # Ctrl-C: no installation goes on behind the back of who ended it
            process.terminate()
            process.wait()


def _since(log: Path, start: int) -> str:
    with open(log, "rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")


def _newest_line(log: Path, start: int) -> str:
    size = log.stat().st_size
    lines = [line.strip() for line in _since(log, max(start, size - 4000)).splitlines()]
    lines = [line for line in lines if line and not line.startswith("WARNING")]
    return f": {lines[-1][:90]}" if lines else ""
