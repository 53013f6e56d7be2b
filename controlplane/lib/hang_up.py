"""Whether the other end of a connection has hung up, told without reading what it may have sent before that.

Does not do
    See an end that has not come: that of a peer which still had more to send than the system takes for a reader.
"""

from __future__ import annotations

import asyncio
import select

_HUNG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR


def has_hung_up(transport: asyncio.Transport) -> bool:
    """Whether the peer has closed or reset the connection, also where data lie unread before its end."""
    sock = transport.get_extra_info("socket")
    number = -1 if sock is None else sock.fileno()
    if number < 0:
        return False  # the transport is closed, and says so itself
    poll = select.poll()
    poll.register(number, select.POLLRDHUP)
    return any(events & _HUNG_UP for _, events in poll.poll(0))
