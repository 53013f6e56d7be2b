"""Connections to Valkey (or Redis) from one URL: `redis://…`, `rediss://…` or `unix:///path?db=0`.

Every connection has time-outs, so that a dead server is an error within seconds and never a hang.
"""

from __future__ import annotations

from typing import Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from controlplane import env

DEFAULT_URL = "redis://127.0.0.1:6379/0"
CONNECT_TIMEOUT_S = 2.0
ANSWER_TIMEOUT_S = 5.0

# what a caller has to expect of every call
ERRORS = (redis.RedisError, OSError)


def url() -> str:
    """Returns `REDIS_URL` (or the content of `REDIS_URL_FILE`); raises SettingError when the file can't be read."""
    return env.read_secret("REDIS_URL", DEFAULT_URL)


def _options() -> dict[str, Any]:
    return {"socket_connect_timeout": CONNECT_TIMEOUT_S, "socket_timeout": ANSWER_TIMEOUT_S}


def connect(address: str | None = None) -> redis.Redis:
    """Returns a blocking client; a call is tried a second time only after a broken connection."""
    return redis.Redis.from_url(address or url(), retry=Retry(NoBackoff(), 1), **_options())


def connect_async(address: str | None = None) -> redis.asyncio.Redis:
    """Returns an asyncio client for the running loop."""
    return redis.asyncio.Redis.from_url(address or url(), **_options())
