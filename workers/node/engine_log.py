"""The log file of an engine: a headline for each start, the last lines, and a bound on its size and age."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

HEADLINE = "=== Headworks: start"
MAX_BYTES = 64 * 1024 * 1024
KEEP_BYTES = 4 * 1024 * 1024
KEEP_AFTER_END_S = 7 * 24 * 3600.0
KEEP_AFTER_END_BYTES = 512 * 1024 * 1024
MAX_LINE = 500

LINES_AFTER_ERROR = 3
_ERROR = re.compile(r"\b\w*(Error|Exception)\b|Traceback|\b(CRITICAL|FATAL)\b")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def write_headline(path: Path, attempt: int, now: float) -> None:
    """Marks where the output of a new start begins."""
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{HEADLINE} number {attempt}, {when} ===\n")


def lines(path: Path, most_bytes: int = 1024 * 1024) -> tuple[str, ...]:
    """Returns the lines of the newest start, as far as the last `most_bytes` hold them, without terminal escapes and
    each at most `MAX_LINE` long."""
    return _newest_start(_read_end(path, most_bytes))


def telling(found: Sequence[str], most: int) -> tuple[str, ...]:
    """Returns the `most` lines that a person wants to see of an engine that ended.

    These are the last ones, unless no error is among them: then they end shortly after the last error, because
    libraries print pages of their own leaks once an interpreter goes down.
    """
    errors = [number for number, line in enumerate(found) if _ERROR.search(line)]
    end = len(found)
    if errors and errors[-1] < end - most:
        end = errors[-1] + 1 + LINES_AFTER_ERROR
    return tuple(found[max(0, end - most) : end])


def bound(path: Path, max_bytes: int = MAX_BYTES, keep_bytes: int = KEEP_BYTES) -> bool:
    """Cuts a log that has grown beyond `max_bytes`, returns whether it did.

    The engine holds the file open for appending, so it is copied and emptied, not renamed; the newest part stays in
    `engine.log.1`. A line written between the copy and the cut is lost.
    """
    try:
        if path.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    kept = path.with_name(path.name + ".1")
    descriptor = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(_read_end(path, keep_bytes))
    os.truncate(path, 0)
    return True


def prune(
    replicas: Path, now: float, max_age_s: float = KEEP_AFTER_END_S, max_bytes: int = KEEP_AFTER_END_BYTES
) -> int:
    """Removes the folders of replicas without a record that are older than `max_age_s` or, oldest first, beyond
    `max_bytes` together; returns how many."""
    ended = [folder for folder in replicas.glob("*") if folder.is_dir() and not (folder / "record.json").exists()]
    by_age = sorted(((_newest_change(folder), folder) for folder in ended), reverse=True)
    removed, total = 0, 0
    for changed_at, folder in by_age:
        total += sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        if now - changed_at > max_age_s or total > max_bytes:
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _newest_change(folder: Path) -> float:
    return max((file.stat().st_mtime for file in folder.iterdir()), default=folder.stat().st_mtime)


def _read_end(path: Path, most_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
            return file.read(most_bytes)
    except FileNotFoundError:
        return b""


def _newest_start(data: bytes) -> tuple[str, ...]:
    text = data.decode("utf-8", errors="replace")
    begin = text.rfind(HEADLINE)
    if begin >= 0:
        text = text[begin:]
    return tuple(_ESCAPES.sub("", line)[:MAX_LINE] for line in text.splitlines() if line.strip())
