"""Slices of quotas in Valkey: one script, one round trip for all limits that a gateway has something to say about.

Guarantees
    The script follows `domain.quotas.pool.Pool` step by step and is atomic. Time is Valkey's own (`TIME`), so clocks of
    gateways may differ and step; `Leases.now()` follows it between two answers by a monotonic clock.
    A gateway that was not heard of for `LEASE_S` is dead, and what it held is back with the next word of another.
Does not do
    Decisions: those are the book's. A Valkey that does not answer within `ANSWER_S` counts as gone; the book is told so
    and goes on with what it holds.
Concurrency
    One exchange at a time; who comes meanwhile waits for the next one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis.asyncio

from controlplane.domain.quotas import slices
from controlplane.domain.quotas.answers import NeedsSlice, QuotaAnswer
from controlplane.domain.quotas.book import SliceBook
from controlplane.domain.quotas.quota import Who
from controlplane.domain.quotas.slices import Ask, Reply
from controlplane.domain.quotas.windows import FOREVER
from controlplane.lib import keys, valkey

logger = logging.getLogger(__name__)

ANSWER_S = 1.0
GATHER_S = 0.01
TRIES = 3  # a slice may be gone to others that waited for it as well
KEEP_S = 3600  # limits without a calendar window are forgotten when nobody used them for so long
KEEP_WINDOW_S = 86_400  # calendar windows are kept for so long after their end, for a clock that steps back

# KEYS[1] the gateways; ARGV: gateway, lease (ms), prefix of limits, keep (s), keep windows (s), short (ms), then for
# each limit its meter, kind, limit, spent_total, spent_acked, held, spare, wanted, needed, window.
# A limit is a hash: `out`, `at` (ms), `short` (ms), and for each gateway `h:<id>` (holds) and `s:<id>` (spent in all).
SCRIPT = """
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local now_s = tonumber(time[1])
local me, lease_ms = ARGV[1], tonumber(ARGV[2])
local living = {}
local gateways = 0
redis.call('ZADD', KEYS[1], now_ms, me)
local known = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #known, 2 do
  if math.abs(now_ms - tonumber(known[i + 1])) > lease_ms then
    redis.call('ZREM', KEYS[1], known[i])
  else
    living[known[i]] = true
    gateways = gateways + 1
  end
end

local function first_day(number)
  local year, month = math.floor(number / 12), number % 12 + 1
  local shifted = year
  if month <= 2 then shifted = year - 1 end
  local era = math.floor(shifted / 400)
  local year_of_era = shifted - era * 400
  local from_march = month + 9
  if month > 2 then from_march = month - 3 end
  local of_year = math.floor((153 * from_march + 2) / 5)
  return era * 146097 + year_of_era * 365 + math.floor(year_of_era / 4) - math.floor(year_of_era / 100)
    + of_year - 719468
end

local function window_of(kind)
  local days = math.floor(now_s / 86400)
  if kind == 'day' then return days, (days + 1) * 86400 end
  if kind ~= 'month' then return 0, -1 end
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year_of_era = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524)
    - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year_of_era + math.floor(year_of_era / 4) - math.floor(year_of_era / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local month = from_march - 9
  if from_march < 10 then month = from_march + 3 end
  local year = year_of_era + era * 400
  if month <= 2 then year = year + 1 end
  local number = year * 12 + month - 1
  return number, first_day(number + 1) * 86400
end

local answers = {tostring(now_ms), gateways}
for i = 7, #ARGV, 10 do
  local meter, kind, limit = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local spent_total, spent_acked = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local held, spare = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6])
  local wanted, needed, its_window = tonumber(ARGV[i + 7]), tonumber(ARGV[i + 8]), tonumber(ARGV[i + 9])
  local window, ends_at = window_of(kind)
  local key = ARGV[3] .. meter .. ':' .. window
  local fields = redis.call('HGETALL', key)
  local shared = {}
  for f = 1, #fields, 2 do shared[fields[f]] = fields[f + 1] end
  local out = tonumber(shared['out'] or '0')
  if kind == 'refilled' then
    local elapsed_ms = math.max(0, now_ms - tonumber(shared['at'] or now_ms))
    out = math.max(0, out - elapsed_ms * limit / 60000)
  end
  local gone = {}
  for field, units in pairs(shared) do
    if string.sub(field, 1, 2) == 'h:' and not living[string.sub(field, 3)] then
      out = math.max(0, out - tonumber(units))
      gone[#gone + 1] = field
    end
  end
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  local spent = 0
  if its_window == -1 or its_window == window then
    spent = math.max(0, spent_total - tonumber(shared['s:' .. me] or spent_acked))
  else
    held, spare = 0, 0
  end
  out = math.max(0, out - tonumber(shared['h:' .. me] or '0') + spent + held)
  local left = math.floor(limit - out)
  local taken = 0
  if left < 0 then taken = math.min(spare, -left) end
  left = left + taken
  local grant = 0
  if left > 0 then
    local slice = math.min(wanted, math.max(1, math.floor(left / (2 * gateways))))
    grant = math.min(left, math.max(slice, needed))
  end
  local short_until, short_ms = tonumber(shared['short'] or '0'), tonumber(ARGV[6])
  local short = 0
  if now_ms < short_until and short_until <= now_ms + short_ms then short = 1 end
  if grant < needed then short_until = now_ms + short_ms end
  out = out + grant - taken
  redis.call('HSET', key, 'out', string.format('%.6f', out), 'at', now_ms, 'short', short_until,
    's:' .. me, ARGV[i + 3])
  local holds = held - taken + grant
  if holds > 0 then
    redis.call('HSET', key, 'h:' .. me, string.format('%.0f', holds))
  else
    redis.call('HDEL', key, 'h:' .. me)
  end
  if ends_at > 0 then
    redis.call('EXPIREAT', key, ends_at + tonumber(ARGV[5]))
  else
    redis.call('EXPIRE', key, tonumber(ARGV[4]))
  end
  local answer = {grant, taken, left - grant, short, window, ends_at}
  for _, number in ipairs(answer) do answers[#answers + 1] = string.format('%.0f', number) end
end
return answers
"""


class Leases:
    """Keeps the book of one gateway in touch with Valkey. `gateway` must differ with each start of a process."""

    def __init__(
        self, client: redis.asyncio.Redis, book: SliceBook, gateway: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.book = book
        self.round_trips = 0
        self.failures = 0
        self._client = client
        self._gateway = gateway
        self._clock = clock
        self.ahead_s = time.time() - clock()  # Valkey's time less our clock; this machine's until Valkey has told
        self._all_at = -FOREVER  # when everything was said last
        self._exchange: asyncio.Task[None] | None = None
        self._poked = asyncio.Event()

    def now(self) -> float:
        """Returns Valkey's time as far as it is known, else this machine's, in UTC seconds."""
        return self._clock() + self.ahead_s

    async def reserve(self, request_id: str, who: Who, tokens: int, money: int) -> QuotaAnswer:
        """Reserves; waits for Valkey only where this gateway holds too little. Never answers NeedsSlice unless others
        take away each slice that comes."""
        return await self.until_known(lambda: self.book.reserve(request_id, who, tokens, money, self.now()))

    async def until_known(self, reserve: Callable[[], QuotaAnswer]) -> QuotaAnswer:
        """Asks the book, by `reserve`, and talks to Valkey as often as that says that it needs a slice."""
        answer = reserve()
        for _ in range(TRIES):
            if not isinstance(answer, NeedsSlice):
                break
            await self.sync()
            answer = reserve()
        if self.book.wants_sync:
            self.wake()
        return answer

    def wake(self) -> None:
        """Has more fetched soon, as stores run low."""
        self._poked.set()

    async def run(self) -> None:
        """Talks to Valkey every `HEARTBEAT_S`, and at once when more is wanted; ends only when cancelled."""
        while True:
            await self.sync()
            self._poked.clear()
            try:
                await asyncio.wait_for(self._poked.wait(), slices.HEARTBEAT_S)
            except TimeoutError:
                continue
            # nobody waits for this one: stores that run low are gathered, and a lost Valkey is not back the sooner
            await asyncio.sleep(GATHER_S if self.book.cut_off_at is None else slices.HEARTBEAT_S / 4)

    async def sync(self) -> None:
        """Has one exchange that begins now or later; several callers share it."""
        before = self._exchange
        if before is not None and not before.done():
            await asyncio.shield(before)  # it may have begun before our need was known
        else:
            before = None
        if self._exchange is None or self._exchange.done():
            if before is not None and not self.book.wants_sync:
                return
            self._exchange = asyncio.create_task(self._talk(self._asks()))
        await asyncio.shield(self._exchange)

    def _asks(self) -> Sequence[Ask]:
        """Everything once a second; between, only what is wanted at once."""
        clock = self._clock()
        if 0.0 <= clock - self._all_at < slices.HEARTBEAT_S and self.book.wants_sync:
            return self.book.asks(self.now(), hungry_only=True)
        self._all_at = clock
        return self.book.asks(self.now())

    async def leave(self) -> None:
        """Gives everything back that no running request holds; the last word of this gateway."""
        if self._exchange is not None and not self._exchange.done():
            await self._exchange
        await self._talk(self.book.leaving())
        try:
            await asyncio.wait_for(self._client.zrem(keys.quota_gateways(), self._gateway), ANSWER_S)
        except (*valkey.ERRORS, TimeoutError) as error:
            logger.warning("leaving without a word to Valkey: %s", error)

    async def _talk(self, asks: Sequence[Ask]) -> None:
        sent_at = self._clock()
        try:
            said = [keys.quota_gateways(), *arguments(self._gateway, asks)]
            found: Any = await asyncio.wait_for(self._client.eval(SCRIPT, 1, *said), ANSWER_S)
        except (*valkey.ERRORS, TimeoutError) as error:
            self.failures += 1
            self._all_at = -FOREVER
            if self.book.cut_off_at is None and self.book.meters:
                logger.warning("Valkey does not answer (%s); quotas go on with what is held", error)
            self.book.failed(self.now())
            return
        self.round_trips += 1
        if self.book.cut_off_at is not None and self.book.meters:
            logger.warning("Valkey answers again; quotas are shared again")
        at, replies = answers(asks, found)
        self.ahead_s = at - (sent_at + self._clock()) / 2
        self.book.answered(replies, self.now())


def arguments(gateway: str, asks: Sequence[Ask]) -> list[str | int]:
    """Returns the script's arguments."""
    lease_ms, short_ms = int(slices.LEASE_S * 1000), int(slices.SHORT_S * 1000)
    said: list[str | int] = [gateway, lease_ms, keys.quota(""), KEEP_S, KEEP_WINDOW_S, short_ms]
    for one in asks:
        said += [one.meter, one.kind, one.limit, one.spent_total, one.spent_acked]
        said += [one.held, one.spare, one.wanted, one.needed, one.window]
    return said


def answers(asks: Sequence[Ask], found: Sequence[Any]) -> tuple[float, list[Reply]]:
    """Returns Valkey's time (UTC seconds) and its answer to each ask."""
    gateways = int(found[1])
    replies: list[Reply] = []
    for place, ask in enumerate(asks):
        granted, taken, left, short, window, ends_at = map(int, found[2 + place * 6 : 8 + place * 6])
        end = FOREVER if ends_at < 0 else float(ends_at)
        replies.append(Reply(ask.meter, granted, taken, left, gateways, bool(short), window, end))
    return int(found[0]) / 1000, replies
