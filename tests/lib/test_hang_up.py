"""A peer that hangs up, as seen without reading."""

from __future__ import annotations

import asyncio
import socket
import struct

from controlplane.lib.hang_up import has_hung_up


async def make_pair() -> tuple[asyncio.Transport, socket.socket]:
    ours, theirs = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    transport.pause_reading()
    return transport, theirs


async def test_who_has_sent_something_and_stays_has_not_hung_up() -> None:
    transport, peer = await make_pair()
    peer.sendall(b"more")
    assert not has_hung_up(transport)
    peer.close()
    transport.close()


async def test_who_has_left_has_hung_up_though_what_it_sent_is_unread() -> None:
    transport, peer = await make_pair()
    peer.sendall(b"more")
    peer.close()
    assert has_hung_up(transport)
    transport.close()


async def test_a_reset_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    transport.pause_reading()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    assert has_hung_up(transport)
    transport.close()


async def test_a_connection_that_is_closed_on_this_side_is_not_asked() -> None:
    transport, peer = await make_pair()
    transport.abort()
    await asyncio.sleep(0)
    assert not has_hung_up(transport)
    peer.close()
