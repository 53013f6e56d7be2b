"""Traces as text: CSV with a header, or JSON lines. Columns go by their names; nothing is guessed.

own         arrival_s | arrival_ms | arrival (a date), input_tokens, output_tokens
Azure       TIMESTAMP (a date), ContextTokens, GeneratedTokens
Mooncake    timestamp (ms), input_length, output_length
BurstGPT    Timestamp (s), Request tokens, Response tokens
ServeGen    window_start_s, total_rate_req_per_s: rates without lengths

Further columns are not read. Upper and lower case are the same.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Protocol

from controlplane.domain.capacity import trace
from controlplane.domain.capacity.lengths import MOST_TOKENS
from controlplane.domain.capacity.recorded import FIELD, Recorded
from controlplane.domain.errors import RefusedError
from controlplane.domain.specs.fields import shown

MOST_BYTES = 2 * 1024 * 1024
_RIGHT = "CSV with a header, or JSON lines, with arrival_s, input_tokens and output_tokens"
_MOST_COLUMNS_SHOWN = 12
_FARTHEST_S = 1e12


@dataclass(frozen=True, slots=True)
class _Columns:
    """Names of one kind of trace. `unit` of its times: s, ms or date."""

    arrival: str
    input: str
    output: str
    unit: str


_KINDS = (
    _Columns("arrival_s", "input_tokens", "output_tokens", "s"),
    _Columns("arrival_ms", "input_tokens", "output_tokens", "ms"),
    _Columns("arrival", "input_tokens", "output_tokens", "date"),
    _Columns("timestamp", "contexttokens", "generatedtokens", "date"),
    _Columns("timestamp", "input_length", "output_length", "ms"),
    _Columns("timestamp", "request tokens", "response tokens", "s"),
)
_START, _RATE = "window_start_s", "total_rate_req_per_s"
_RIGHT_COLUMNS = {
    "arrival_s": "arrival_s (seconds), arrival_ms, arrival (a date) or timestamp",
    "input_tokens": "input_tokens, ContextTokens, input_length or Request tokens",
    "output_tokens": "output_tokens, GeneratedTokens, output_length or Response tokens",
}


class _Reader(Protocol):
    """What the csv module reads with."""

    @property
    def line_num(self) -> int: ...

    def __next__(self) -> list[str]: ...


_Line = tuple[int, Mapping[str, object]]  # its number, and its values by column


def read(text: str) -> Recorded:
    """What a trace shows. Raises RefusedError naming `trace`, and the line or column in its sentence."""
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise _refused(f"The trace is larger than {MOST_BYTES // 1024:,} KiB. Give a part of it that has its peak.")
    text = text.lstrip("\ufeff \t\r\n")
    if not text:
        raise _refused("The trace is empty.")
    if text.startswith("["):
        raise _refused("The trace is a JSON list. Write one object a line.")
    names, lines = _json_lines(text) if text.startswith("{") else _csv(text)
    if _START in names and _RATE in names:
        return trace.of_rates(
            [(_number(line, _START, -_FARTHEST_S, _FARTHEST_S), _number(line, _RATE, 0, 1e7)) for line in lines]
        )
    kind = _kind(names)
    time = _TIMES[kind.unit]
    rows = [
        (
            time(line, kind.arrival),
            _number(line, kind.input, 0, MOST_TOKENS),
            _number(line, kind.output, 0, MOST_TOKENS),
        )
        for line in lines
    ]
    if len({row[0] for row in rows}) < 2:
        raise _refused("The trace has fewer than two requests at different times, which make no rate.")
    return trace.recorded(rows)


def _csv(text: str) -> tuple[Sequence[str], Iterator[_Line]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    names = [name.strip().casefold() for name in _next_row(reader) or []]
    return names, _csv_lines(reader, names)


def _csv_lines(reader: _Reader, names: Sequence[str]) -> Iterator[_Line]:
    while (row := _next_row(reader)) is not None:
        if not row:
            continue
        if len(row) < len(names):
            raise _refused(f"Line {reader.line_num} of the trace has {len(row)} columns, its header {len(names)}.")
        yield reader.line_num, dict(zip(names, row, strict=False))


def _next_row(reader: _Reader) -> list[str] | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        raise _refused(f"Line {reader.line_num} of the trace can't be read as CSV: {error}.") from None


def _json_lines(text: str) -> tuple[Sequence[str], Iterator[_Line]]:
    lines = text.split("\n")
    first = _object(1, lines[0])
    return list(first), ((number, _object(number, line)) for number, line in enumerate(lines, 1) if line.strip())


def _object(number: int, line: str) -> Mapping[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise _refused(f"Line {number} of the trace is no JSON object. Write one object a line.") from None
    if not isinstance(found, dict):
        raise _refused(f"Line {number} of the trace is no JSON object. Write one object a line.")
    return {name.strip().casefold(): value for name, value in found.items()}


def _kind(names: Sequence[str]) -> _Columns:
    held = set(names)
    for kind in _KINDS:
        if {kind.arrival, kind.input, kind.output} <= held:
            return kind
    roles = {
        "arrival_s": {kind.arrival for kind in _KINDS},
        "input_tokens": {kind.input for kind in _KINDS},
        "output_tokens": {kind.output for kind in _KINDS},
    }
    columns = ", ".join(shown(name) for name in list(names)[:_MOST_COLUMNS_SHOWN]) or "none"
    for role, known in roles.items():
        if not known & held:
            raise _refused(
                f"The trace has no column {role}; its columns are {columns}.", f"{role}: {_RIGHT_COLUMNS[role]}"
            )
    right = "arrival_s (seconds), arrival_ms or arrival (a date), with input_tokens and output_tokens"
    raise _refused(f"What the times of the trace are counted in is not said; its columns are {columns}.", right)


def _seconds(line: _Line, name: str) -> float:
    return _number(line, name, -_FARTHEST_S, _FARTHEST_S)


def _milliseconds(line: _Line, name: str) -> float:
    return _number(line, name, -_FARTHEST_S * 1e3, _FARTHEST_S * 1e3) / 1e3


def _date(line: _Line, name: str) -> float:
    number, values = line
    value = values.get(name)
    try:
        if not isinstance(value, str):
            raise ValueError
        found = datetime.fromisoformat(value.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        right = "a date such as 2023-11-16 18:17:03.97"
        raise _refused(f"Line {number} of the trace: {name} is {shown(value)}.", f"{name}: {right}") from None


_TIMES: Mapping[str, Callable[[_Line, str], float]] = {"s": _seconds, "ms": _milliseconds, "date": _date}


def _number(line: _Line, name: str, least: float, most: float) -> float:
    number, values = line
    value = values.get(name)
    found: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value) if -most * 2 < value < most * 2 else None
    elif isinstance(value, str) and value.isascii() and "_" not in value:
        try:
            found = float(value)
        except ValueError:
            found = None
    if found is None or not isfinite(found) or not least <= found <= most:
        right = f"a number from {least:g} to {most:g}"
        raise _refused(f"Line {number} of the trace: {name} is {shown(value)}.", f"{name}: {right}")
    return found


def _refused(sentence: str, right: str = _RIGHT) -> RefusedError:
    return RefusedError("trace", sentence, hint=right, fields={FIELD: right})
