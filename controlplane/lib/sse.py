"""Server-sent events of OpenAI-compatible engines, as they pass through.

Guarantees
    What goes in comes out byte for byte, except the usage event when it was asked for by the gateway and not by the
    client. Only whole events come out, whatever the pieces they arrive in (LF and CRLF), so that an event of our own
    may follow at any time; an event longer than `HOLD_LIMIT_BYTES` is passed on in pieces.
Does not do
    Parse events: it counts lines that begin with `data:` and decodes only what may carry the usage.
"""

from __future__ import annotations

import re

import msgspec

from controlplane.lib.usage import Usage, event_decoder

HOLD_LIMIT_BYTES = 64 * 1024

_ENDS = (b"\n\n", b"\r\n\r\n")
_USAGE = b'"usage"'
_DATA = b"data:"
_NEXT_DATA = b"\ndata:"
_WHOLE_EVENT = re.compile(rb".*?\n\r?\n", re.DOTALL)


class EventStream:
    """One streamed answer. `events` counts `data:` lines that went out, `usage` is the last usage seen."""

    __slots__ = ("_held", "_inside", "_last", "_strip_usage", "events", "usage")

    def __init__(self, strip_usage: bool) -> None:
        self.events = 0
        self.usage: Usage | None = None
        self._strip_usage = strip_usage
        self._held = b""  # the beginning of an event whose end has not come yet
        self._inside = False  # the beginning of an overlong event is already out
        self._last = b""

    def feed(self, data: bytes) -> bytes:
        """Takes the next piece and returns what may be sent on (possibly nothing)."""
        if not self._held and not self._inside and data.endswith(_ENDS) and _USAGE not in data:
            self.events += data.count(_NEXT_DATA) + data.startswith(_DATA)
            self._last = data
            return data
        return self._feed_carefully(data)

    def rest(self) -> bytes:
        """Returns what is left when the engine ended the stream without a blank line after its last event."""
        rest, self._held = self._held, b""
        if rest:
            self.events += rest.count(_NEXT_DATA) + rest.startswith(_DATA)
            self._last = rest
        return rest

    @property
    def inside_event(self) -> bool:
        """Whether the client has got the beginning of an event without its end."""
        return self._inside

    def output_tokens(self) -> int:
        """Returns the output tokens by the engine's own count, else one for each event but the end mark."""
        if self.usage is not None and self.usage.completion_tokens is not None:
            return self.usage.completion_tokens
        return max(0, self.events - (b"[DONE]" in self._last))

    def _feed_carefully(self, data: bytes) -> bytes:
        data = self._held + data
        passed = b""
        if self._inside:
            end = _WHOLE_EVENT.match(data)
            if end is None:
                # the last 3 bytes may be the first part of the blank line
                self._held = data[-3:]
                return data[:-3]
            passed, data = data[: end.end()], data[end.end() :]
            self._inside = False
        cut = max(data.rfind(b"\n\n") + 2, data.rfind(b"\n\r\n") + 3)
        if cut < 4:
            cut = 0
        whole, self._held = data[:cut], data[cut:]
        self.events += whole.count(_NEXT_DATA) + whole.startswith(_DATA)
        if _USAGE in whole:
            whole = self._take_usage(whole)
        if whole:
            self._last = whole
        if len(self._held) > HOLD_LIMIT_BYTES:
            self.events += self._held.count(_NEXT_DATA) + self._held.startswith(_DATA)
            whole, self._held, self._inside = whole + self._held[:-3], self._held[-3:], True
        return passed + whole

    def _take_usage(self, whole: bytes) -> bytes:
        kept = []
        for event in _WHOLE_EVENT.findall(whole):
            if _USAGE in event and self._is_usage_event(event) and self._strip_usage:
                self.events -= 1
            else:
                kept.append(event)
        return b"".join(kept)

    def _is_usage_event(self, event: bytes) -> bool:
        payload = b"".join(line[5:] for line in event.splitlines() if line.startswith(_DATA))
        try:
            decoded = event_decoder.decode(payload)
        except (msgspec.DecodeError, RecursionError):
            return False  # an engine's own invention is passed on as it is
        if decoded.usage is None:
            return False
        self.usage = decoded.usage
        return decoded.choices == []
