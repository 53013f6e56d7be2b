"""Samples as collectors and gateways would write them: a past of 15 minutes, then one a second."""

from __future__ import annotations

import asyncio
import math
import random
import sys
import time
from collections.abc import Sequence
from statistics import NormalDist

from controlplane.domain.rollups import Rollup
from controlplane.domain.samples import SamplePart
from controlplane.lib import histograms, sample_store, valkey

GIB = 1024**3
_QUANTILES = [NormalDist().inv_cdf((number + 0.5) / 200) for number in range(200)]


def parts_at(subjects: Sequence[str], t: float) -> list[SamplePart]:
    """Returns plausible parts of every subject at a moment: a slow wave with noise."""
    return [part for number, subject in enumerate(subjects) for part in _parts(subject, t, number)]


def _parts(subject: str, t: float, number: int) -> list[SamplePart]:
    dice = random.Random(f"{subject}{int(t)}")
    wave = 0.55 + 0.3 * math.sin(t / 140 + number) + 0.1 * math.sin(t / 17 + 2 * number)
    load = max(0.02, wave + dice.uniform(-0.06, 0.06))
    if subject.startswith("node:"):
        values = {
            "gpu_utilization": min(1.0, load),
            "gpu_memory_used_bytes": (300 + 30 * load) * GIB,
            "gpu_memory_total_bytes": 640.0 * GIB,
            "gpu_power_w": 1900 + 2800 * load,
            "gpu_temperature_c": 38 + 30 * load,
        }
        return [SamplePart(subject, f"collector:{subject[5:]}", t, values)]
    running = round(140 * load)
    engine = {
        "kv_usage": min(0.99, 0.15 + 0.75 * load),
        "running": float(running),
        "waiting": float(max(0, round(40 * (load - 0.7)))),
        "tokens_per_s": 2600 * load,
        "preemptions": 0.0,
        **_coarse(load),
    }
    gateway = {
        "requests_per_s": 11 * load,
        "errors_per_s": 0.0,
        "tokens_per_s": 2590 * load,
        "gateway_queue": 0.0,
        "gateway_in_flight": float(running + 3),
    }
    wide = 0.3 + 0.25 * wave * (1 + 0.3 * math.sin(t / 31 + number))
    spread = {
        "ttft": _counts(0.11 + 0.16 * load * load, wide),
        "tpot": _counts(0.017 + 0.02 * wave, 0.12 + 0.1 * wave),
        "e2e": _counts(4 + 4 * load, wide),
    }
    return [
        SamplePart(subject, "collector:gpu-01", t, engine),
        SamplePart(subject, "gateway:test", t, gateway, spread),
    ]


def _coarse(load: float) -> dict[str, float]:
    """What an engine says of itself: the bounds of its few buckets."""
    ttft, itl = (0.1, 0.25 if load < 0.8 else 0.5), (0.025, 0.05)
    return dict(
        zip(("engine_ttft_p50", "engine_ttft_p95", "engine_itl_p50", "engine_itl_p95"), (*ttft, *itl), strict=True)
    )


def _counts(middle: float, spread: float) -> dict[int, int]:
    """The counts of a log-normal latency, as a minute of requests would leave them: smooth from second to second."""
    found: dict[int, int] = {}
    for quantile in _QUANTILES:
        bucket = histograms.bucket_of(middle * math.exp(quantile * spread))
        found[bucket] = found.get(bucket, 0) + 1
    return found


async def write_past(subjects: Sequence[str], seconds: int = 900, gap: tuple[int, int] = (380, 340)) -> None:
    """Writes the last minutes, with a gap `gap` seconds ago, and an hour of roll-ups."""
    client = valkey.connect_async()
    now = time.time()
    for back in range(seconds, 0, -1):
        if not gap[1] < back < gap[0]:
            await sample_store.write(client, parts_at(subjects, now - back), now - back)
    rollups = []
    for subject in subjects:
        for back in range(360, 0, -1):
            start = (int(now) // 10 - back) * 10
            for part in _parts(subject, start, subjects.index(subject)):
                gauges = {name: (value, value) for name, value in part.values.items() if value is not None}
                rollups.append(Rollup(subject, part.source, start, {}, gauges, part.histograms))
    await sample_store.write_rollups(client, rollups)
    await client.aclose()


async def write_on(subjects: Sequence[str], seconds: float) -> None:
    """Writes one second after another until the time is over."""
    client = valkey.connect_async()
    end = time.time() + seconds
    while time.time() < end:
        now = time.time()
        await sample_store.write(client, parts_at(subjects, now), now)
        await asyncio.sleep(max(0.05, 1 - (time.time() - now)))
    await client.aclose()


if __name__ == "__main__":
    asked, minutes = sys.argv[2:], float(sys.argv[1])
    asyncio.run(write_past(asked))
    asyncio.run(write_on(asked, minutes * 60))
