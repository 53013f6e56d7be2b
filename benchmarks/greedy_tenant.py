"""One greedy tenant and another one, on a real engine: `python -m benchmarks.greedy_tenant --home .headworks`.

A small tenant asks now and then while others keep so many requests open at once: all of them of one tenant, and then
the same load from ten equal tenants. Told is the small tenant's TTFT (p50, p95) in both, and what was refused: who is
refused has no TTFT, so the share that was answered belongs to the figure. Others that are refused ask again when
`Retry-After` says so. Beside ten equals the small tenant's fair part is an eleventh: `--every` lets it ask for less.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.open_loop import REFUSED, Arm, Outcome, ask, make_body
from benchmarks.overload_arms import SNAPSHOT_S, Rest

TENANTS = 10
SETTLE_S = 5.0


@contextlib.contextmanager
def tenants(rest: Rest, count: int, tier: str) -> Iterator[list[str]]:
    """Yields a key of each of so many tenants that are there for this only."""
    run = secrets.token_hex(3)  # an earlier run that was killed has left its tenants
    names = [f"greedy-bench-{run}-{number}" for number in range(count)]
    found, keys = [], []
    try:
        for name in names:
            rest.call("PUT", f"tenants/{name}/", {})
            made = rest.call("POST", f"tenants/{name}/keys/", {"name": "benchmark"})
            keys.append(f"tenants/{name}/keys/{made['key']['id']}/")
            rest.call("PUT", f"{keys[-1]}tier/", {"tier": tier})
            found.append(made["secret"])
        time.sleep(SNAPSHOT_S)
        yield found
    finally:
        for address in [*keys, *(f"tenants/{name}/" for name in names[: len(keys)])]:
            rest.call("DELETE", address)


async def keep_asking(arm: Arm, chance: random.Random, until: float, refused: list[int]) -> None:
    while time.perf_counter() < until:
        outcome = await ask(arm, make_body(chance, arm.model))
        if outcome.status in REFUSED:
            refused[0] += 1
        if outcome.status != 200:
            await asyncio.sleep(max(1.0, outcome.retry_after_s))


async def small_one(arm: Arm, until: float, every_s: float) -> list[Outcome]:
    chance, asked = random.Random(99), []
    await asyncio.sleep(SETTLE_S)
    while time.perf_counter() < until - SETTLE_S:
        asked.append(asyncio.create_task(ask(arm, make_body(chance, arm.model))))
        await asyncio.sleep(chance.expovariate(1.0 / every_s))
    return list(await asyncio.gather(*asked))


async def measure(small: Arm, others: list[Arm], parallel: int, seconds: float, every_s: float) -> dict[str, Any]:
    """Returns what came of the small tenant's requests, one each `every_s`, while `others` hold `parallel` together."""
    until, refused = time.perf_counter() + seconds, [0]
    load = [
        asyncio.create_task(keep_asking(others[number % len(others)], random.Random(number), until, refused))
        for number in range(parallel)
    ]
    outcomes = await small_one(small, until, every_s)
    await asyncio.gather(*load)
    whole = sorted(one.ttft_s for one in outcomes if one.status == 200)
    return {
        "asked": len(outcomes),
        "whole": len(whole),
        "refused": sum(one.status in REFUSED for one in outcomes),
        "ttft_p50_s": round(whole[len(whole) // 2], 3) if whole else None,
        "ttft_p95_s": round(whole[int(0.95 * (len(whole) - 1))], 3) if whole else None,
        "others_refused": refused[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--home", required=True, help="HEADWORKS_HOME of an installation that runs on this machine")
    parser.add_argument("--parallel", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--every", type=float, default=1.5, help="seconds between the small tenant's requests, on average"
    )
    parser.add_argument("--tier", default="standard")
    parser.add_argument("--ttft", type=float, default=1.0, help="the objective, for the interactive tier (seconds)")
    given = parser.parse_args()
    known = json.loads((Path(given.home) / "first-run.json").read_text())
    rest, model = Rest(known["console_url"], known["api_token"]), known["model"]
    port = urlsplit(known["gateway_url"]).port or 80
    rest.call("PUT", f"deployments/{model}/slo/", {"ttft_s": given.ttft, "tpot_s": 0.08})
    try:
        with tenants(rest, TENANTS + 1, given.tier) as found:
            small, *others = [Arm(f"t{number}", port, secret, model) for number, secret in enumerate(found)]
            rows = {}
            for name, arms in (("ten equal tenants", others), ("one greedy tenant", others[:1])):
                print(f"{name}: {given.seconds:.0f} s, and until their last requests are over", file=sys.stderr)
                rows[name] = asyncio.run(measure(small, arms, given.parallel, given.seconds, given.every))
    finally:
        rest.call("DELETE", f"deployments/{model}/slo/")
    ratio = None
    if rows["ten equal tenants"]["ttft_p95_s"] and rows["one greedy tenant"]["ttft_p95_s"]:
        ratio = round(rows["one greedy tenant"]["ttft_p95_s"] / rows["ten equal tenants"]["ttft_p95_s"], 2)
    print(json.dumps({"tier": given.tier, "parallel": given.parallel, **rows, "p95_ratio": ratio}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
