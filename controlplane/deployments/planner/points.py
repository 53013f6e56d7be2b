"""Measured points as they are given: a list of objects, or lines of numbers that were pasted."""

from __future__ import annotations

import re
from collections.abc import Mapping

from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.measured import MOST_POINTS, MeasuredPoint

MOST_TEXT = 4000
RIGHT = (
    f"up to {MOST_POINTS} points with concurrency (requests in one replica), tpot_ms and, where it is known, ttft_ms"
)
_BOUNDS = (
    ("concurrency", 1, 1e6), ("tpot_ms", 0.01, 1e6), ("ttft_ms", 0.01, 1e8), ("input_tokens", 1, 2e7),
    ("output_tokens", 1, 2e7),
)  # fmt: skip
_NEEDED = ("concurrency", "tpot_ms")
_COLUMNS = ("concurrency", "tpot_ms", "ttft_ms")


def read(given: object, bounds: Bounds) -> tuple[MeasuredPoint, ...]:
    """The points; notes in `bounds` what can't be."""
    rows = lines(given) if isinstance(given, str) else given
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_POINTS:
        bounds.refuse("points", given, RIGHT)
        return ()
    found = []
    for number, row in enumerate(rows, start=1):
        point = _point(row)
        if point is None:
            bounds.refuse("points", row, f"{RIGHT}; point {number} is none")
            return ()
        found.append(point)
    return tuple(found)


def _point(row: object) -> MeasuredPoint | None:
    if not isinstance(row, Mapping) or row.keys() - {name for name, _, _ in _BOUNDS}:
        return None
    own = Bounds("point")
    for name, least, most in _BOUNDS:
        if name in _NEEDED:
            own.number(name, row.get(name), least, most)
        else:
            own.optional(name, row.get(name), least, most)
    return None if own.wrong else MeasuredPoint(**{str(name): value for name, value in row.items()})


def lines(text: str) -> list[object] | None:
    """Lines of two or three numbers with commas, semicolons, tabs or spaces between; a line of words heads them."""
    if len(text) > MOST_TEXT:
        return None
    rows = [line for line in text.splitlines() if line.strip()]
    if rows and not any(letter.isdigit() for letter in rows[0]):
        rows = rows[1:]
    return [_numbers(row) for row in rows]


def _numbers(line: str) -> object:
    words = [word for word in re.split(r"[,;\s]+", line.strip()) if word]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return line
    return dict(zip(_COLUMNS, numbers, strict=False)) if len(numbers) in (2, 3) else line
