"""A plain answer on its way: held until it is whole, as long as it is short, so that one that breaks is a clean error.

Does not do
    Send.
"""

from __future__ import annotations

from controlplane.lib.plain_usage import PassingUsage, usage_of
from controlplane.lib.usage import Usage

HOLD_BYTES = 1024 * 1024


class PlainAnswer:
    """The body of one exchange, in pieces as they come."""

    __slots__ = ("_passing", "_pieces", "_size", "_whole")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._passing: PassingUsage | None = None  # of one that is too long to be held
        self._whole = b""

    def take(self, data: bytes) -> bytes:
        """Takes the next piece and returns what is to be sent now: nothing while it is held."""
        if self._passing is None:
            self._pieces.append(data)
            self._size += len(data)
            if self._size <= HOLD_BYTES:
                return b""
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._passing = PassingUsage()
        self._passing.feed(data)
        return data

    def whole(self) -> bytes:
        """Ends it; returns all of it where it was held."""
        self._whole = b"".join(self._pieces)
        return self._whole

    def usage(self) -> Usage | None:
        """Returns the engine's count of tokens in it, None when it gave none or is not whole."""
        return self._passing.found if self._passing is not None else usage_of(self._whole)
