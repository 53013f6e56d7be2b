"""Clients that stream without a pause and write down how each stream ended and when events came; what `/metrics` says
before and after."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field

FINE = ("whole", "left")
LONGEST_STAY_S = 2.0
PAUSE_S = 0.05  # after a stream that did not come to its end


@dataclass(frozen=True, slots=True)
class Ended:
    """One stream: `how` is "whole", a status with its code, "event" with its code, "cut", "refused", "hangs", or "left"
    when its own client went away."""

    at: float
    how: str


@dataclass
class Client:
    """Streams at one gateway."""

    url: str
    key: str
    model: str
    max_tokens: int = 40
    limit_s: float = 60.0
    leaving: float = 0.0  # share of the streams whose client goes away at some moment
    ended: list[Ended] = field(default_factory=list)
    events: list[float] = field(default_factory=list)  # when each came
    stopped: bool = False

    async def load(self, number: int) -> None:
        """One stream after the other, until `stopped`."""
        chance = random.Random(number)
        while not self.stopped:
            leaves = chance.random() < self.leaving
            try:
                async with asyncio.timeout(chance.random() ** 2 * LONGEST_STAY_S if leaves else self.limit_s):
                    how = await self._stream(number)
            except TimeoutError:
                how = "left" if leaves else "hangs"
            except ConnectionRefusedError:
                how = "refused"
            except (OSError, asyncio.IncompleteReadError, ValueError, IndexError):
                how = "cut"
            self.ended.append(Ended(time.time(), how))
            if how not in FINE:
                await asyncio.sleep(PAUSE_S)

    def page(self, path: str) -> str:
        """Returns a page of the gateway; empty while nothing answers."""
        with contextlib.suppress(OSError), urllib.request.urlopen(self.url + path, timeout=5) as answer:
            return str(answer.read().decode())
        return ""

    def longest_gap_s(self, since: float, until: float | None = None) -> float:
        """Returns the longest time in which no stream brought anything."""
        times = [one for one in self.events if one >= since and (until is None or one <= until)]
        return max((after - before for before, after in itertools.pairwise(times)), default=0.0)

    async def _stream(self, number: int) -> str:
        parts = urllib.parse.urlsplit(self.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 20)
        try:
            writer.write(self._request(number))
            status = int((await reader.readline()).split()[1])
            while (await reader.readline()).strip():
                pass
            if status != 200:
                return f"{status} {_code(await reader.read())}"
            return await self._events(reader)
        finally:
            writer.close()

    async def _events(self, reader: asyncio.StreamReader) -> str:
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                if b'"error"' in line[:20]:
                    return f"event {_code(line[6:])}"
                self.events.append(time.time())
            elif line.startswith(b"data: [DONE]"):
                return "whole"
        return "cut"

    def _request(self, number: int) -> bytes:
        messages = [{"role": "user", "content": f"Tell me about the number {number}."}]
        fields = {"model": self.model, "messages": messages, "max_tokens": self.max_tokens, "stream": True}
        body = json.dumps({**fields, "ignore_eos": True}).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
        )
        head += f"authorization: Bearer {self.key}\r\ncontent-length: {len(body)}\r\n\r\n"
        return head.encode() + body


def _code(raw: bytes) -> str:
    begin, end = raw.find(b"{"), raw.rfind(b"}")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(raw[begin : end + 1])["error"]["code"])
    return "?"


def figures(text: str) -> dict[str, float]:
    """Returns series -> value; under `type name` nothing is lost, see `went_backwards`."""
    kinds = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0]
            found[series if kinds.get(name) == "gauge" else f"{COUNTED}{series}"] = float(value)
    return found


COUNTED = "counted "


def went_backwards(before: dict[str, float], after: dict[str, float]) -> list[str]:
    """Returns the counters that are less than they were."""
    return [one for one, value in before.items() if one.startswith(COUNTED) and after.get(one, 0.0) < value]
