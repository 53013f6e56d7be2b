"""Tells open pages that an object changed. A hint, not the truth: a page that misses one sees the change on its next
look, so a Valkey that is away is no error here.

The message is published to the channel layer's group from blocking code without an event loop of its own: the layer
offers only coroutines, and a new loop with a new connection for each commit would cost more than the commit.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction

from controlplane.lib import valkey

logger = logging.getLogger(__name__)

CHANGES = "changes"  # group: {"type": "changes.event", "object_kind", "object_id", "verb"}
TICKS = "telemetry"  # group: {"type": "telemetry.tick", "t"}
QUIET_AFTER_FAILURE_S = 5.0

_client = valkey.connect()
_silent_until = 0.0


def changed(object_kind: str, object_id: str, verb: str) -> None:
    """Announces a change of an object once the running transaction has committed."""
    message = {"type": "changes.event", "object_kind": object_kind, "object_id": object_id, "verb": verb}
    transaction.on_commit(lambda: _publish(message), robust=True)


def _publish(message: dict[str, str]) -> None:
    global _silent_until  # noqa: PLW0603 - one process, one Valkey: whoever finds it away spares the others the wait
    if time.monotonic() < _silent_until:
        return
    config: Any = settings.CHANNEL_LAYERS["default"]["CONFIG"]
    try:
        _client.publish(f"{config['prefix']}__group__{CHANGES}", get_channel_layer().serialize(message))
    except valkey.ERRORS as error:
        _silent_until = time.monotonic() + QUIET_AFTER_FAILURE_S
        logger.warning("open pages were not told of a change: %s", error)
