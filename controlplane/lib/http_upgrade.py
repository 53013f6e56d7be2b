"""A request that wishes for another protocol, as it is without the wish (RFC 9110 7.8 lets a server ignore it)."""

from __future__ import annotations

from collections.abc import Iterable

_OF_AN_UPGRADE = frozenset({b"upgrade", b"http2-settings"})


def without_upgrade(method: bytes, target: bytes, version: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns the whole head, for a parser that starts anew; `headers` have lower-case names."""
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode())]
    for name, value in headers:
        if name == b"connection":
            kept = [one for one in value.split(b",") if one.strip().lower() not in _OF_AN_UPGRADE]
            lines.append(b"connection: " + b",".join(kept))
        elif name not in _OF_AN_UPGRADE:
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join(lines) + b"\r\n\r\n"
