"""Seconds of the domain and the wire against timestamps of the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(seconds: float) -> datetime:
    """Returns seconds since the epoch as a timestamp; raises OverflowError or ValueError for what is no time."""
    return _EPOCH + timedelta(seconds=seconds)


def to_optional(seconds: float | None) -> datetime | None:
    """Returns seconds since the epoch as a timestamp, None for None."""
    return None if seconds is None else to_datetime(seconds)
