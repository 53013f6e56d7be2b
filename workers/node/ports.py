"""Free TCP ports for engines, from a range of their own.

Ports that the kernel gives out by itself would be taken by any connection between our choice and the engine's bind,
which is half a minute for a real engine; and a firewall rule can name a range.
"""

from __future__ import annotations

import random
import socket
import threading

from controlplane import env

DEFAULT_RANGE = "20000-29999"


class NoPortError(Exception):
    """Every port of the range is taken; the text says which range and how to change it."""


class PortRange:
    """Hands out ports. Thread-safe; one instance may serve several supervisors of one process."""

    def __init__(self, low: int, high: int) -> None:
        self._low = low
        self._high = high
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, host: str) -> int:
        """Returns a port of the range on which `host` can be bound now and that was not handed out before."""
        with self._lock:
            start = random.randrange(self._low, self._high + 1)  # noqa: S311
            for offset in range(self._high - self._low + 1):
                port = self._low + (start - self._low + offset) % (self._high - self._low + 1)
                if port not in self._taken and _can_bind(host, port):
                    self._taken.add(port)
                    return port
        raise NoPortError(
            f"No port between {self._low} and {self._high} is free on {host}; widen HEADWORKS_ENGINE_PORTS."
        )

    def hold(self, port: int) -> None:
        """Marks a port as taken by an engine that was adopted."""
        with self._lock:
            self._taken.add(port)

    def give_back(self, port: int) -> None:
        """Frees a port whose engine is gone."""
        with self._lock:
            self._taken.discard(port)


def from_environment() -> PortRange:
    """Returns the range of `HEADWORKS_ENGINE_PORTS`, such as `20000-29999`."""
    text = env.read_str("HEADWORKS_ENGINE_PORTS", DEFAULT_RANGE)
    low, _, high = text.partition("-")
    if not (low.isdigit() and high.isdigit() and 1024 <= int(low) <= int(high) <= 65535):
        raise env.SettingError(f"HEADWORKS_ENGINE_PORTS={text!r} is not a range such as {DEFAULT_RANGE}.")
    return PortRange(int(low), int(high))


def _can_bind(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
