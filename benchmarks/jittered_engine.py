"""The stand-in for an engine with ticks that come early and late, so that 400 streams do not speak in one voice.

python -m benchmarks.jittered_engine PATH_OF_MOCK_ENGINE --port 9101 --ttft-ms 20 --tpot-ms 20
"""

from __future__ import annotations

import asyncio
import random
import runpy
import sys

JITTER = 0.5  # of each pause, up or down


def main() -> None:
    path = sys.argv[1]
    chance = random.Random(7)
    exact = asyncio.sleep

    async def sleep(delay: float, result: None = None) -> None:
        await exact(delay * chance.uniform(1 - JITTER, 1 + JITTER), result)

    asyncio.sleep = sleep  # type: ignore[assignment]
    sys.argv = sys.argv[1:]
    runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    main()
