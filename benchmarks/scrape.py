"""What one scrape costs the collector: CPU of reading a recorded vLLM answer.

    python -m benchmarks.scrape [FILE] [--repeat N] [--json]

Prints microseconds of CPU a scrape, with and without the engine's histograms. The limit is 500.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from engine_adapters import registry
from workers.node import collector_engine

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "metrics" / "vllm-0.32.0-cpu.txt"


def cpu_us(call: Callable[[], object], repeat: int) -> float:
    """Returns the CPU of one call in microseconds, the best of five rounds."""
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        for _ in range(repeat):
            call()
        best = min(best, time.process_time() - begin)
    return best / repeat * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--repeat", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    text = options.file.read_bytes()
    names = registry.get("vllm").metric_names(None)
    reader = collector_engine.make_reader(names)
    result = {"bytes": len(text), "read_us": round(cpu_us(lambda: reader.read(text), options.repeat), 1)}
    if options.json:
        print(json.dumps(result))
    else:
        print(f"{result['bytes']} bytes: {result['read_us']} µs of CPU a scrape")


if __name__ == "__main__":
    main()
