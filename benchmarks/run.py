"""`make bench`: runs the benchmarks and writes their figures to benchmarks/results/."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import gateway

PEERS = ("nginx", "vllm-router", "litellm")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated; the others are left out")
    given = parser.parse_args()
    return gateway.main(given.rounds, given.seconds, tuple(given.peers.split(",")))


if __name__ == "__main__":
    sys.exit(main())
