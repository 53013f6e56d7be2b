"""Overload on a real engine: goodput of the bare engine and of the gateway before it, in one run.

*Goodput* is whole answers a second inside the objective (TTFT, mean TPOT). First the bare engine's best is sought over
rates; then both arms get 1.5 and 2.3 times the rate of that best, in turn, with pauses in which the engine runs empty.

    python -m benchmarks.overload --home .headworks                                  # an installation that runs
    python -m benchmarks.overload --python ENGINE_PYTHON --model MODEL_FOLDER        # engine and gateway of its own
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.open_loop import REFUSED, Arm, Slo, offer
from benchmarks.overload_arms import installed, own
from benchmarks.processes import ROOT

EMPTY_S = 3.0
WARM_RATE, WARM_S = 2.0, 5.0


async def best_of(bare: Arm, rates: list[float], seconds: float, slo: Slo) -> float:
    """Returns the offered rate at which the bare engine's goodput is best."""
    for number, rate in enumerate(rates):
        await offer(bare, rate, seconds, seed=1000 + number)
        await asyncio.sleep(EMPTY_S)
        print(f"  bare engine, {rate:g}/s offered: goodput {bare.rate_of(rate, seconds, slo):.2f}/s", flush=True)
    return max(rates, key=lambda rate: bare.rate_of(rate, seconds, slo))


async def compare(arms: list[Arm], rates: list[float], seconds: float, rounds: int, slo: Slo) -> None:
    """Offers each rate to each arm, `rounds` times, first come in turn."""
    for number in range(rounds):
        for rate in rates:
            for arm in arms if number % 2 else arms[::-1]:
                await offer(arm, rate, seconds, seed=number)
                await asyncio.sleep(EMPTY_S)
                shown = arm.rate_of(rate, seconds, slo)
                print(f"  round {number + 1}/{rounds}, {rate:g}/s, {arm.name}: goodput {shown:.2f}/s", flush=True)


async def run(arms: list[Arm], given: argparse.Namespace, slo: Slo) -> dict[str, Any]:
    """Returns all figures."""
    for arm in arms:
        await offer(arm, WARM_RATE, WARM_S, seed=0)  # caches warm, seats known
        arm.outcomes.clear()
        arm.offers.clear()
    search = [float(one) for one in given.search.split(",")]
    at = await best_of(arms[0], search, given.seconds, slo)
    best = arms[0].rate_of(at, given.seconds, slo)
    print(f"  the bare engine is best at {at:g}/s offered: goodput {best:.2f}/s", flush=True)
    rates = [round(at * float(one), 2) for one in given.times.split(",")]
    arms[0].outcomes = {rate: rows for rate, rows in arms[0].outcomes.items() if rate not in rates}
    arms[0].offers = {rate: count for rate, count in arms[0].offers.items() if rate not in rates}
    await compare(arms, rates, given.seconds, given.rounds, slo)
    rows = [row(arm, rate, given.seconds, slo, best) for rate in rates for arm in arms]
    return {"slo": {"ttft_s": slo.ttft_s, "tpot_s": slo.tpot_s}, "best_at": at, "best_goodput": best, "rows": rows}


def row(arm: Arm, rate: float, seconds: float, slo: Slo, best: float) -> dict[str, Any]:
    """Returns what came of one rate on one arm."""
    found, time_s = arm.outcomes[rate], seconds * arm.offers[rate]
    whole = sum(one.status == 200 for one in found)
    good = sum(one.is_good(slo) for one in found)
    told = sorted(one.told_s for one in found if one.status in REFUSED)
    return {
        "offered": rate, "arm": arm.name, "goodput": good / time_s,
        "ratio_to_best": good / time_s / best if best else None,
        "whole": whole / time_s, "in_slo": good / whole if whole else None, "refused": len(told) / time_s,
        "told_p99_s": told[int(0.99 * (len(told) - 1))] if told else None, "told_most_s": told[-1] if told else None,
        "failed": sum(one.status not in (200, *REFUSED) for one in found),
    }  # fmt: skip


def show(result: dict[str, Any]) -> None:
    slo = result["slo"]
    print(f"\nObjective: TTFT {slo['ttft_s']:g} s, TPOT {slo['tpot_s'] * 1000:g} ms; requests a second")
    print(f"The bare engine's best: {result['best_goodput']:.2f} good when {result['best_at']:g} are offered")
    head = ("offered", "arm", "goodput", "of best", "whole", "in SLO", "refused", "told p99", "failed")
    print("  {:>8}  {:10}{:>9}{:>9}{:>8}{:>8}{:>9}{:>10}{:>8}".format(*head))
    for one in result["rows"]:
        share = "-" if one["in_slo"] is None else f"{one['in_slo']:.1%}"
        ratio = "-" if one["ratio_to_best"] is None else f"{one['ratio_to_best']:.2f}"
        told = "-" if one["told_p99_s"] is None else f"{one['told_p99_s']:.2f} s"
        print(
            f"  {one['offered']:>8g}  {one['arm']:10}{one['goodput']:>9.2f}{ratio:>9}{one['whole']:>8.2f}{share:>8}"
            f"{one['refused']:>9.2f}{told:>10}{one['failed']:>8}"
        )


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--home", default="", help="HEADWORKS_HOME of an installation that runs on this machine")
    parser.add_argument("--python", default=os.environ.get("HEADWORKS_ENGINE_PYTHON", ""))
    parser.add_argument("--model", default=os.environ.get("HEADWORKS_MODEL_PATH", ""))
    parser.add_argument("--search", default="3,4,5,6,7,8,10", help="rates at which the bare engine's best is sought")
    parser.add_argument("--times", default="1.5,2.3", help="times the rate of that best")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--ttft", type=float, default=1.0, help="seconds")
    parser.add_argument("--tpot", type=float, default=0.08, help="seconds")
    parser.add_argument("--seats", type=int, default=256, help="max_num_seqs of an engine of its own")
    return parser.parse_args()


def main() -> int:
    given = read_arguments()
    slo = Slo(given.ttft, given.tpot)
    with tempfile.TemporaryDirectory(prefix="hwo-") as folder:
        arms: AbstractContextManager[tuple[list[Arm], int]]
        if given.home:
            arms = installed(Path(given.home), slo)
        elif Path(given.python).is_file() and Path(given.model, "config.json").is_file():
            arms = own(given.python, given.model, Path(folder), slo, given.seats)
        else:
            print("overload: skipped, it needs --home, or --python (of the engine) and --model (a folder)")
            return 0
        with arms as (both, port):
            result = asyncio.run(run(both, given, slo))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                lines = answer.read().decode().splitlines()
    show(result)
    print("\n".join(one for one in lines if one.startswith(("headworks_gateway_seats{", "headworks_gateway_refused"))))
    written = ROOT / "benchmarks" / "results" / f"overload-{time.strftime('%Y%m%d-%H%M%S')}.json"
    written.parent.mkdir(exist_ok=True)
    written.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
