"""Frozen dataclasses to JSON bytes and back, with the field named when something does not fit."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class WireError(ValueError):
    """A message does not have the shape of its contract; the text names the field."""


def encode(value: object) -> bytes:
    """Returns compact JSON of dataclasses, mappings, tuples and plain values."""
    return msgspec.json.encode(value)


def to_plain(value: object) -> Any:
    """Returns the value as dicts, lists and plain values."""
    return msgspec.to_builtins(value)


def decode(data: bytes | str, shape: type[T]) -> T:
    """Returns `data` as an instance of `shape`; unknown fields are ignored; raises WireError naming the field."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(f"{shape.__name__}: {error}") from error
    except RecursionError as error:
        raise WireError(f"{shape.__name__}: nested too deeply") from error


def from_plain(value: object, shape: type[T]) -> T:
    """Returns dicts and lists as an instance of `shape`; raises WireError naming the field."""
    try:
        return msgspec.convert(value, type=shape)
    except msgspec.ValidationError as error:
        raise WireError(f"{shape.__name__}: {error}") from error
