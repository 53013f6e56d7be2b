"""Telling open pages that an object changed. Sent after commit; a lost message only makes a page a little late."""

from __future__ import annotations

import logging

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from controlplane.lib import valkey

CHANGES_GROUP = "changes"

logger = logging.getLogger(__name__)


def changed(object_kind: str, object_id: str, verb: str) -> None:
    """Sends `{"type": "changed", …}` to the group of changes once the running transaction has committed."""
    message = {"type": "changed", "object_kind": object_kind, "object_id": object_id, "verb": verb}

    def send() -> None:
        layer = get_channel_layer()
        try:
            async_to_sync(layer.group_send)(CHANGES_GROUP, message)
        except valkey.ERRORS as error:
            logger.warning("a change of %s %s was not announced: %s", object_kind, object_id, error)

    transaction.on_commit(send, robust=True)
