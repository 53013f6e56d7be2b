"""kill -9 of each part of a running Headworks under load: `HEADWORKS_HOME=... python -m benchmarks.kills`.

Needs what `make up` has started (best with HEADWORKS_GATEWAY_PROCESSES=2). A few clients stream without a pause while
one part after the other is killed. Told of each: how requests ended, the longest time without any event of any stream,
when the part ran again and all streams were whole again, whether every gauge of the gateway was 0 at rest afterwards,
whether a counter went backwards, and what the journal says. `--only valkey,engine` leaves the others out; JSON with
`--json`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.events import FINE, Client, Ended, figures, went_backwards
from controlplane import env
from controlplane.domain.ownership import owner
from controlplane.embedded import children, engines, proc

SERVICES = ("postgres", "valkey", "controller", "console", "worker", "beat", "node", "collector")
VICTIMS = ("gateway owner", "gateway other", *SERVICES, "gateway", "engine")
BEFORE_S, QUIET_S, LIMIT_S = 4.0, 10.0, 240.0  # QUIET_S: the journal needs some seconds too
AT_REST = ("in_flight", "kv_tokens_reserved", "queue", "usage_backlog_rows")


@dataclass
class Stack:
    """What `make up` has started in a folder."""

    home: Path
    first_run: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.first_run = json.loads((self.home / "first-run.json").read_text(encoding="utf-8"))

    @property
    def gateway(self) -> str:
        return str(self.first_run["gateway_url"])

    def workers(self) -> dict[str, int]:
        """The gateway processes behind the port: id -> pid."""
        parent = self._service("gateway")
        return {} if parent is None else gateway_workers(parent)

    def pid(self, victim: str) -> int | None:
        """The process that is called so."""
        if victim == "engine":
            living = engines.living(self.home)
            return living[0].process.pid if living else None
        if victim in ("gateway owner", "gateway other"):
            workers = self.workers()
            owning = owner(str(self.first_run["model"]), workers)
            return next((pid for one, pid in workers.items() if (one == owning) == victim.endswith("owner")), None)
        return self._service(victim)

    def _service(self, name: str) -> int | None:
        known = children.remembered(self.home / "children.json").get(name)
        return known.pid if known is not None and proc.is_alive(known) else None

    def rest(self, path: str) -> Any:
        """A page of the REST interface; None while nothing answers."""
        request = urllib.request.Request(f"{self.first_run['console_url']}/api/v1{path}")
        request.add_header("Authorization", f"Bearer {self.first_run['api_token']}")
        with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)
        return None

    def is_well(self) -> bool:
        """Returns whether every process runs and a replica is ready."""
        known = children.remembered(self.home / "children.json")
        if not all(self._service(name) for name in known) or len(self.workers()) not in (0, gateway_processes()):
            return False
        page = self.rest("/replicas/")
        return page is not None and any(one["state"] == "ready" for one in page["results"])


def gateway_processes() -> int:
    count = env.read_int("HEADWORKS_GATEWAY_PROCESSES", 1, low=1, high=64)
    return 0 if count == 1 else count


def gateway_workers(parent: int) -> dict[str, int]:
    """Returns the gateway processes that a parent has started: id -> pid."""
    found = {}
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            found[words[words.index("--worker") + 1]] = int(pid)
    return found


async def kill(stack: Stack, victim: str, given: argparse.Namespace) -> dict[str, Any]:
    """Kills one part under load; returns what was seen."""
    client = Client(
        stack.gateway, str(stack.first_run["gateway_key"]), str(stack.first_run["model"]), leaving=given.leaving
    )
    before = figures(client.page("/metrics"))
    pid = stack.pid(victim)
    if pid is None:
        return {"victim": victim, "skipped": "does not run"}
    load = [asyncio.create_task(client.load(number)) for number in range(given.streams)]
    await asyncio.sleep(BEFORE_S)
    killed_at = time.time()
    os.kill(pid, signal.SIGTERM if given.stop else signal.SIGKILL)
    back_s = well_s = None
    while time.time() - killed_at < LIMIT_S:
        await asyncio.sleep(0.2)
        now = time.time()
        if back_s is None and await asyncio.to_thread(stack.pid, victim) not in (None, pid):
            back_s = now - killed_at
        if back_s is not None and await asyncio.to_thread(stack.is_well):
            well_s = well_s or time.time() - killed_at
            bad = [one.at for one in client.ended if one.how not in FINE]
            if time.time() - max([killed_at + well_s, *bad]) > QUIET_S:
                break
    client.stopped = True
    await asyncio.gather(*load)
    return {
        "victim": victim,
        "streams": Counter(one.how for one in client.ended if one.at < killed_at)["whole"],
        "ended_after": dict(Counter(one.how for one in client.ended if one.at >= killed_at)),
        "last_bad_s": last_bad(client.ended, killed_at),
        "longest_gap_s": round(client.longest_gap_s(killed_at - 1), 2),
        "gap_before_s": round(client.longest_gap_s(0, killed_at), 2),
        "runs_again_s": rounded(back_s),
        "well_s": rounded(well_s),
        **await at_rest(client, before, restarted=victim == "gateway"),
        "journal": journal(stack, killed_at),
    }


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def last_bad(ended: list[Ended], since: float) -> float:
    """Returns how long after the kill a stream ended badly for the last time; 0 = never."""
    return round(max((one.at - since for one in ended if one.at >= since and one.how not in FINE), default=0.0), 1)


async def at_rest(client: Client, before: dict[str, float], *, restarted: bool) -> dict[str, Any]:
    """Returns which gauges are not 0 although nothing runs, and which counters are less than before."""
    left: dict[str, float] = {}
    for _ in range(20):
        now = figures(await asyncio.to_thread(client.page, "/metrics"))
        left = {one: value for one, value in now.items() if value and _is_at_rest(one)}
        if now and not left:
            break
        await asyncio.sleep(0.5)
    return {"not_zero": left, "backwards": [] if restarted else went_backwards(before, now)}


def _is_at_rest(series: str) -> bool:
    return series.partition("{")[0].removeprefix("headworks_gateway_") in AT_REST


def journal(stack: Stack, since: float) -> list[str]:
    """Returns what has been written down since then."""
    page = stack.rest("/events/") or {"results": []}
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))
    return [f"{row['level']}: {row['message']}" for row in page["results"] if row["at"] >= stamp]


async def run(stack: Stack, given: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for victim in given.only.split(","):
        row = await kill(stack, victim, given)
        print(json.dumps(row), file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'killed':14} {'gap s':>6} {'runs s':>7} {'well s':>7} {'at rest':>8}  ended"]
    for row in rows:
        if "skipped" in row:
            lines.append(f"{row['victim']:14} {row['skipped']}")
            continue
        rest = "0" if not row["not_zero"] and not row["backwards"] else "not 0"
        ended = ", ".join(f"{count} {how}" for how, count in row["ended_after"].items())
        lines.append(
            f"{row['victim']:14} {row['longest_gap_s']:6} {row['runs_again_s'] or '-':>7}"
            f" {row['well_s'] or '-':>7} {rest:>8}  {ended}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(VICTIMS))
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--leaving", type=float, default=0.0, help="share of the streams whose client goes away")
    parser.add_argument("--stop", action="store_true", help="SIGTERM instead of SIGKILL")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = asyncio.run(run(Stack(env.headworks_home()), given))
    print(json.dumps(rows, indent=2) if given.json else table(rows))
    return int(any(row.get("not_zero") or row.get("backwards") or row.get("well_s") is None for row in rows))


if __name__ == "__main__":
    sys.exit(main())
