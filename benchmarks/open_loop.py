"""Open-loop load: requests come when they come, whether or not earlier ones are answered.

Poisson arrivals of streams (20-150 prompt and 20-60 output tokens), each judged by a service level objective.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field

WORDS = ["the", "river", "runs", "past", "an", "old", "mill", "and", "brings", "new", "water", "to", "sea"]
REFUSED = (429, 503)


@dataclass(frozen=True, slots=True)
class Slo:
    """How long the first token may take, and on average each further one (seconds)."""

    ttft_s: float
    tpot_s: float


@dataclass(slots=True)
class Outcome:
    """One request as its client saw it."""

    status: int = 0
    ttft_s: float = 0.0
    tpot_s: float = 0.0
    told_s: float = 0.0  # until the head of the answer
    retry_after_s: float = 0.0

    def is_good(self, slo: Slo) -> bool:
        return self.status == 200 and self.ttft_s <= slo.ttft_s and self.tpot_s <= slo.tpot_s


@dataclass(slots=True)
class Arm:
    """Where one arm's requests go."""

    name: str
    port: int
    key: str
    model: str
    outcomes: dict[float, list[Outcome]] = field(default_factory=dict)
    offers: dict[float, int] = field(default_factory=dict)

    def rate_of(self, offered: float, seconds: float, slo: Slo) -> float:
        """Returns the goodput at an offered rate, in requests a second; `seconds` is the length of one offer."""
        rows = self.outcomes[offered]
        offers = max(1, self.offers.get(offered, 1))
        return sum(one.is_good(slo) for one in rows) / (offers * seconds)


async def ask(arm: Arm, body: bytes) -> Outcome:
    """Sends one stream and returns what came of it."""
    found, began = Outcome(), time.perf_counter()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
    head += f"authorization: Bearer {arm.key}\r\ncontent-length: {len(body)}\r\n\r\n"
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", arm.port, limit=1 << 20)
    except OSError:
        return found
    try:
        writer.write(head.encode() + body)
        first = await reader.readline()
        found.told_s = time.perf_counter() - began
        status, events, first_at, last_at = int(first.split()[1]), 0, 0.0, 0.0
        while line := await reader.readline():
            if line.startswith(b"data: {") and b'"content":' in line:
                last_at = time.perf_counter()
                first_at = first_at or last_at
                events += 1
            elif line.startswith(b"data: [DONE]"):
                found.status = status
            elif line.lower().startswith(b"retry-after:"):
                found.retry_after_s = float(line.partition(b":")[2])
        if status != 200:
            found.status = status
        elif events:
            found.ttft_s = first_at - began
            found.tpot_s = (last_at - first_at) / max(1, events - 1)
        else:
            found.status = 0
    except (OSError, ValueError, asyncio.IncompleteReadError, IndexError):
        pass
    finally:
        writer.close()
    return found


def make_body(chance: random.Random, model: str) -> bytes:
    text = " ".join(chance.choice(WORDS) for _ in range(chance.randint(10, 130)))
    messages = [{"role": "user", "content": text}]
    fields = {"model": model, "messages": messages, "max_tokens": chance.randint(20, 60), "stream": True}
    return json.dumps({**fields, "ignore_eos": True, "temperature": 0.0}).encode()


async def offer(arm: Arm, rate: float, seconds: float, seed: int) -> None:
    """Offers `rate` requests a second for a time and waits for all of them."""
    chance = random.Random(seed)
    tasks: list[asyncio.Task[Outcome]] = []
    at, until = time.perf_counter(), time.perf_counter() + seconds
    while at < until:
        at += chance.expovariate(rate)
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(arm, make_body(chance, arm.model))))
    arm.offers[rate] = arm.offers.get(rate, 0) + 1
    arm.outcomes.setdefault(rate, []).extend(await asyncio.gather(*tasks))
