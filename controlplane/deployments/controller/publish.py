"""Writing the documents to Valkey.

Guarantees
    A replica that is to stop leaves the routing snapshot before its node is told to stop it. Versions grow only when
    the content changes. A document is written only while this controller leads. Everything is written again every
    `SNAPSHOT_EVERY_S`, so a Valkey that lost its data is whole again by then.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import redis
from django.db.models import F
from django.utils import timezone

from controlplane import dispatch
from controlplane.deployments.controller import documents
from controlplane.deployments.controller.documents import NodeWish
from controlplane.deployments.controller.leadership import Leadership
from controlplane.domain.routing import SNAPSHOT_EVERY_S
from controlplane.fleet.models import Node
from controlplane.lib import keys

logger = logging.getLogger(__name__)

# Writes unless a higher version is there; returns the version that is there afterwards.
_WRITE_SNAPSHOT = """
local there = tonumber(redis.call('GET', KEYS[2]) or '-1')
if there > tonumber(ARGV[2]) then return there end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('SET', KEYS[4], ARGV[3])
redis.call('PUBLISH', KEYS[3], ARGV[2])
return tonumber(ARGV[2])
"""


class Publisher:
    """Publishes what changed, and everything from time to time. One owner, the controller's loop."""

    def __init__(self, leadership: Leadership, client: redis.Redis) -> None:
        self._leadership = leadership
        self._client = client
        self._hash = ""  # of the snapshot last published
        self._version = 0
        self._all_at = 0.0  # when everything was written last
        self._models: tuple[str, ...] = ()  # whose files nodes were asked for last

    def run(self, now: float) -> None:
        """Publishes at time `now` (seconds since the epoch). Raises LostError when this controller does not lead, one
        of valkey.ERRORS when Valkey is away."""
        models = documents.models_asked()
        everything = not 0.0 <= now - self._all_at < SNAPSHOT_EVERY_S or models != self._models
        self._models = models
        # until this round has gone well, the next one writes everything
        all_at, self._all_at = self._all_at, 0.0
        # read before the snapshot, so that whatever they stop is missing there already
        wishes = documents.build_wishes()
        self._snapshot(now, everything)
        self._wishes(wishes, now, everything)
        self._all_at = now if everything else all_at

    def _snapshot(self, now: float, everything: bool) -> None:
        snapshot = documents.build_snapshot(now)
        if snapshot.hash == self._hash and not everything:
            return
        self._leadership.check()
        if snapshot.hash != self._hash:
            self._version = self._leadership.next_version()
        there = self._write(snapshot.encode(self._version, now), self._version, now)
        if there > self._version:
            # written from another database (one was restored, or made anew); ours is the truth and goes on above it
            logger.warning("the snapshot in Valkey has version %s, above ours; going on from there", there)
            self._leadership.skip_to(there)
            self._version = self._leadership.next_version()
            self._write(snapshot.encode(self._version, now), self._version, now)
        self._hash = snapshot.hash

    def _write(self, document: bytes, version: int, now: float) -> int:
        names = (keys.snapshot(), keys.snapshot_version(), keys.snapshot_changed(), keys.snapshot_at())
        return int(self._client.eval(_WRITE_SNAPSHOT, len(names), *names, document, version, now))

    def _wishes(self, wishes: Sequence[NodeWish], now: float, everything: bool) -> None:
        changed = [wish for wish in wishes if wish.hash != wish.node.desired_hash]
        due = wishes if everything else changed
        if due or everything:
            self._leadership.check()
        for wish in changed:
            _count_up(wish)
        if due:
            self._write_wishes(due, now)
        for wish in changed:
            # a lost node takes nothing from its queue, and simulated ones have no worker to wake
            if not wish.node.lost and not wish.node.simulated:
                dispatch.wake_node(wish.node.name)
        if everything:
            self._tidy()

    def _tidy(self) -> None:
        """Removes the documents of nodes that were forgotten; such a node, if it still runs, leaves all as it is."""
        known: Any = self._client.smembers(keys.desired_nodes())
        gone = {name.decode() for name in known} - set(Node.objects.values_list("name", flat=True))
        if gone:
            self._client.delete(*(keys.desired(name) for name in gone))
            self._client.srem(keys.desired_nodes(), *gone)

    def _write_wishes(self, wishes: Sequence[NodeWish], now: float) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for wish in wishes:
            version = wish.node.desired_version
            pipeline.set(keys.desired(wish.node.name), wish.encode(version, now, self._models))
            pipeline.publish(keys.desired_changed(wish.node.name), version)
        pipeline.sadd(keys.desired_nodes(), *(wish.node.name for wish in wishes))
        pipeline.execute()


def _count_up(wish: NodeWish) -> None:
    """Gives a node's document its next version, before anybody can read it."""
    node = wish.node
    Node.objects.filter(pk=node.pk).update(
        desired_version=F("desired_version") + 1, desired_hash=wish.hash, desired_at=timezone.now()
    )
    node.refresh_from_db(fields=["desired_version", "desired_hash"])
