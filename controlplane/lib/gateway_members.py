"""The gateway processes that live, as they tell each other through Valkey: one script a beat, one round trip.

Guarantees
    Who has not beaten for `TTL_MS` by Valkey's own clock is not in the list, so the gateways' clocks do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import redis.asyncio

from controlplane.lib import keys

TTL_MS = 1200

State = Literal["joining", "active", "leaving"]

_BEAT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local oldest = now - tonumber(ARGV[3])
local last = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local gone = redis.call('ZRANGE', KEYS[1], '-inf', '(' .. oldest, 'BYSCORE')
for _, id in ipairs(gone) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('HDEL', KEYS[2], id)
end
local on_time = last and tonumber(last) >= oldest and 1 or 0
return {on_time, redis.call('HVALS', KEYS[2])}
"""


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a gateway process says of itself. `path` is its socket for processes of the same `group` (those that one
    parent has started), `address` (host, port) the one for all others, which have to show `token` there.

    `held` is what runs here: replica id -> (requests, KV tokens). Of what is `said`, the highest number is the newest.
    """

    id: str
    state: State = "active"
    group: str = ""
    path: str = ""
    address: tuple[str, int] | None = None
    token: str = ""
    held: dict[str, tuple[int, int]] = {}
    said: int = 0


@dataclass(frozen=True, slots=True)
class Beaten:
    """What a beat brought. `on_time`: our beat before it still counted; else Valkey or we have slept, and who is
    absent may have slept too."""

    on_time: bool
    members: list[Member] = field(default_factory=list)


_decoder = msgspec.json.Decoder(Member)


async def beat(client: redis.asyncio.Redis, me: Member) -> Beaten:
    """Says that we live and returns who else does; raises one of valkey.ERRORS."""
    words = msgspec.json.encode(me)
    names = (keys.gateway_members(), keys.gateway_member_words())
    answer: Any = await client.eval(_BEAT, 2, *names, me.id, words, str(TTL_MS))
    members = []
    for raw in answer[1]:
        try:
            members.append(_decoder.decode(raw))
        except msgspec.MsgspecError:
            continue  # of another version, which is not to be reckoned with
    return Beaten(bool(answer[0]), [one for one in members if one.id != me.id])


async def leave(client: redis.asyncio.Redis, member_id: str) -> None:
    """Takes a process out of the list; raises one of valkey.ERRORS."""
    await client.zrem(keys.gateway_members(), member_id)
    await client.hdel(keys.gateway_member_words(), member_id)
