"""Tells open pages that an object changed. A hint, not the truth: a page that misses one sees the change on its next
look, so a Valkey that is away is no error here.

Messages are small JSON objects on two pub/sub channels of Valkey, which the hub of every console process listens to.
"""

from __future__ import annotations

import json
import logging
import time

from django.db import transaction

from controlplane.lib import keys, valkey

logger = logging.getLogger(__name__)

CHANGES = "changes"  # {"object_kind", "object_id", "verb"}
TICKS = "ticks"  # {"t"}
QUIET_AFTER_FAILURE_S = 5.0

_client = valkey.connect()
_silent_until = 0.0


def changed(object_kind: str, object_id: str, verb: str) -> None:
    """Announces a change of an object once the running transaction has committed."""
    message = {"object_kind": object_kind, "object_id": object_id, "verb": verb}
    transaction.on_commit(lambda: _publish(message), robust=True)


def _publish(message: dict[str, str]) -> None:
    global _silent_until  # noqa: PLW0603 - one process, one Valkey: whoever finds it away spares the others the wait
    if time.monotonic() < _silent_until:
        return
    try:
        _client.publish(keys.announced(CHANGES), json.dumps(message))
    except valkey.ERRORS as error:
        _silent_until = time.monotonic() + QUIET_AFTER_FAILURE_S
        logger.warning("open pages were not told of a change: %s", error)
