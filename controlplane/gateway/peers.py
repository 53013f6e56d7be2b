"""Who is at the other end: the address of the client behind proxies that we trust."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from controlplane.gateway.client import Headers
from controlplane.gateway.settings import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_address(peer: object, headers: Headers, trusted: Sequence[Network]) -> Address | None:
    """Returns the client's address: the last one of X-Forwarded-For that no trusted proxy has.

    Without a trusted proxy the header is the sender's own invention, so the address is not known then, unless the
    header is absent. `peer` is what the socket calls its other end.
    """
    address = _parse(peer[0]) if isinstance(peer, tuple) else None
    forwarded = [
        part.strip()
        for name, value in headers
        if name == b"x-forwarded-for"
        for part in value.decode("latin-1").split(",")
    ]
    while forwarded:
        if address is None or not any(address in network for network in trusted):
            return None
        address = _parse(forwarded.pop())
        if address is not None and not any(address in network for network in trusted):
            return address
    return address


def _parse(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
