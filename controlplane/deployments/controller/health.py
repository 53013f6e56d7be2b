"""Whether some controller leads and publishes; for health checks."""

from __future__ import annotations

import time

import msgspec
import psycopg

from controlplane.deployments.controller import leadership
from controlplane.domain.routing import SNAPSHOT_EVERY_S
from controlplane.lib import keys, valkey, wire

OLD_AFTER_S = 6 * SNAPSHOT_EVERY_S


class _Head(msgspec.Struct):
    published_at: float


def problem() -> str:
    """Returns what is wrong in one sentence, the empty text when a controller leads and its snapshot is fresh."""
    try:
        if not leadership.is_led():
            return "No controller leads: nobody holds its lock in PostgreSQL."
        with valkey.connect() as client:
            raw = client.get(keys.snapshot())
    except psycopg.Error as error:
        return f"PostgreSQL does not answer: {str(error).strip()}"
    except valkey.ERRORS as error:
        return f"Valkey does not answer: {error}"
    if not isinstance(raw, bytes):
        return "There is no routing snapshot in Valkey."
    age_s = time.time() - wire.decode(raw, _Head).published_at
    return f"The routing snapshot is {age_s:.0f} s old." if age_s > OLD_AFTER_S else ""
