"""Real controllers in threads, and waiting for what they do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import redis

from controlplane.deployments.controller.loop import Controller
from controlplane.domain.desired import NodeDesired
from controlplane.domain.observed import NodeReport
from controlplane.domain.routing import RoutingSnapshot
from controlplane.lib import keys, valkey, wire

T = TypeVar("T")


@contextmanager
def running(url: str | None = None) -> Iterator[Controller]:
    """A controller that runs until the block ends."""
    stop = threading.Event()
    client = valkey.connect(url)
    controller = Controller(client)
    thread = threading.Thread(target=controller.run, args=(stop,))
    thread.start()
    try:
        yield controller
    finally:
        stop.set()
        thread.join(20)
        client.close()
        assert not thread.is_alive(), "the controller did not end"


def eventually(what: Callable[[], T], within_s: float = 20.0) -> T:
    """Returns the first true answer of `what`; fails when there is none in time."""
    deadline = time.monotonic() + within_s
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


def snapshot(client: redis.Redis) -> RoutingSnapshot | None:
    raw = client.get(keys.snapshot())
    return wire.decode(raw, RoutingSnapshot) if isinstance(raw, bytes) else None


def desired(client: redis.Redis, node: str = "n1") -> NodeDesired | None:
    raw = client.get(keys.desired(node))
    return wire.decode(raw, NodeDesired) if isinstance(raw, bytes) else None


def say(client: redis.Redis, report: NodeReport) -> None:
    client.xadd(keys.observations(), {"report": wire.encode(report)})
