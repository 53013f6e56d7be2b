"""`make bench`: runs the benchmarks, prints their figures and writes them to benchmarks/results/."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import gateway
from controlplane.embedded import valkey

ROOT = Path(__file__).resolve().parent.parent

PEERS = ("nginx", "vllm-router", "litellm")
# name -> what it measures; each is `python -m benchmarks.<name>` and prints JSON
PARTS = {
    "scrape": "CPU of reading one scrape of an engine",
    "collector": "CPU of a node's collector with 60 replicas",
    "reports": "what the controller takes for a fleet of 200 nodes",
    "planner": "CPU of the server for a change in the planner, in ms; the limit is 100",
    "ledger": "how far the memory ledger is from what engines logged",
    "performance_model": "how far the latency model is from what was published",
    "open_streams": "memory of the gateway with 2,000 open streams",
    "take_over": "how long nothing is answered when a gateway process dies or hangs",
    "parallelism": "whether the advice on parallelism is what was measured",
}
ARGUMENTS = {
    "take_over": ["--rounds", "3"],
    "reports": ["--nodes", "200", "--json"],
    "ledger": [],
    "performance_model": [],
}
OWN_TABLE = frozenset({"ledger", "performance_model"})  # on standard error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated; the others are left out")
    parser.add_argument("--only", default="", help=f"one of gateway, {', '.join(PARTS)}")
    given = parser.parse_args()
    failed = 0
    for name in PARTS:
        if given.only in ("", name):
            failed |= _run_part(name)
    if given.only in ("", "gateway"):
        failed |= gateway.main(given.rounds, given.seconds, tuple(given.peers.split(",")))
    return failed


def _run_part(name: str) -> int:
    print(f"\n{name}: {PARTS[name]}", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", *ARGUMENTS.get(name, ["--json"])]
    with _own_valkey() as address:
        environment = {**os.environ, "REDIS_URL": address}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(f"  failed with exit status {done.returncode}")
        return 1
    if not done.stdout.strip():
        print("  skipped")
        return 0
    figures = json.loads(done.stdout)
    if name not in OWN_TABLE:
        print("\n".join(_lines(figures)))
    written = ROOT / "benchmarks" / "results" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    written.parent.mkdir(exist_ok=True)
    written.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _lines(figures: dict[str, object], depth: int = 1) -> Iterator[str]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield f"{'  ' * depth}{name}"
            yield from _lines(value, depth + 1)
        else:
            yield f"{'  ' * depth}{name:<{40 - 2 * depth}}{value!s:>12}"


@contextmanager
def _own_valkey() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="hwb-") as place:
        folder = Path(place)
        server = subprocess.Popen(
            valkey.server_command(folder, folder / "v.sock", durable=False), stdout=subprocess.DEVNULL
        )
        try:
            while not (folder / "v.sock").exists():
                time.sleep(0.05)
            yield valkey.url(folder / "v.sock")
        finally:
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    sys.exit(main())
