"""The gateway against its peers: CPU for a plain request and for a streamed event, first bytes, all in one run.

Everything runs on this machine: a stand-in for an engine, one proxy at a time under load, a cheap client. Rounds are
interleaved (each round visits every proxy), so that a busy neighbour hits all alike; ratios are taken within a round
and their median is reported. CPU per unit is the figure to trust, rate and latency show that nothing broke.

The gateway's figure holds everything that works for a request: its own process, Valkey, the consumer of usage and its
PostgreSQL; with a key, a tier, quotas, the KV ledger, a ladder, metering and metrics on. The client and the engine come
from `HEADWORKS_SHARED/bench`; the peers are described in `benchmarks.proxies`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gateway_table import FIGURE, summary, table
from benchmarks.processes import ROOT, free_port, running
from benchmarks.proxies import Target, targets
from benchmarks.reports import own_servers

ENGINE_ARGUMENTS: Mapping[str, list[str]] = {
    "plain": [],
    "stream": ["--ttft-ms", "20", "--tpot-ms", "20"],
    "first byte": ["--ttft-ms", "20", "--tpot-ms", "20"],
}
STREAMS = ["--conc", "400", "--tokens", "100"]
LOAD_ARGUMENTS: Mapping[str, list[str]] = {"plain": ["--conc", "32"], "stream": STREAMS, "first byte": STREAMS}
FEW_STREAMS = ["--conc", "8", "--tokens", "100"]  # LiteLLM can't keep up with more
WARM_S = 8.0
LEFT_OUT = {"first byte": ("litellm",)}


def wait_for_answer(target: Target, port: int, process: subprocess.Popen[bytes], limit_s: float = 90) -> None:
    """Returns when the proxy gives a real answer; raises RuntimeError when it does not."""
    body = json.dumps({"model": target.model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1})
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        body.encode(),
        {"content-type": "application/json", **({"authorization": f"Bearer {target.key}"} if target.key else {})},
    )
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"{target.name} gave no answer within {limit_s:g} s")


def load(tools: Path, mode: str, target: Target, at: tuple[int, int], seconds: float) -> dict[str, Any]:
    """Puts load on the proxy `at` (port, pid) and returns the client's figures."""
    port, pid = at
    pids = ",".join(str(one) for one in (pid, *target.beside))
    command = [
        sys.executable, str(tools / "load.py"), "plain" if mode == "plain" else "stream",
        "--url", f"http://127.0.0.1:{port}", "--pid", pids, "--model", target.model, "--key", target.key,
        "--secs", str(seconds), *(FEW_STREAMS if is_slow(target, mode) else LOAD_ARGUMENTS[mode]),
    ]  # fmt: skip
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 120).stdout
    figures: dict[str, Any] = json.loads(output)
    return figures


def is_slow(target: Target, mode: str) -> bool:
    """Returns whether a target gets eight streams instead of 400."""
    return mode == "stream" and target.name == "litellm"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, where the tools are, and where temporary files go."""

    rounds: int
    seconds: float
    tools: Path
    folder: Path


@contextlib.contextmanager
def started(mode: str, chosen: list[Target], plan: Plan) -> Iterator[list[tuple[Target, tuple[int, int]]]]:
    """Yields each target with its port and process id, when all of them answer."""
    engine, mock = free_port(), str(plan.tools / "mock_engine.py")
    jittered = [sys.executable, "-m", "benchmarks.jittered_engine", mock]
    command = [*(jittered if mode == "first byte" else [sys.executable, mock]), "--port", str(engine)]
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(running([*command, *ENGINE_ARGUMENTS[mode]], {}, plan.folder / "engine.log"))
        found = []
        for target in chosen:
            if target.start is None:
                wait_for_answer(target, engine, process)
                found.append((target, (engine, process.pid)))
                continue
            port = free_port()
            command, environment = target.start(engine, port, plan.folder)
            proxy = stack.enter_context(running(command, environment, plan.folder / f"{target.name}.log"))
            wait_for_answer(target, port, proxy)
            found.append((target, (port, proxy.pid)))
        yield found


def measure(mode: str, chosen: list[Target], plan: Plan) -> None:
    """Runs the rounds of one mode; each target keeps the figures of each round."""
    figure = FIGURE[mode]
    with started(mode, [one for one in chosen if one.name not in LEFT_OUT.get(mode, ())], plan) as targets_now:
        for target, at in targets_now:  # seats are found, caches and connections are warm
            if target.name == "headworks":
                load(plan.tools, mode, target, at, WARM_S)
        for number in range(plan.rounds):
            turn = number % len(targets_now)
            for target, at in targets_now[turn:] + targets_now[:turn]:
                figures = load(plan.tools, mode, target, at, plan.seconds)
                target.rounds.setdefault(mode, []).append(figures)
                print(f"  {mode} round {number + 1}/{plan.rounds} {target.name}: {figures[figure]}", flush=True)


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[tuple[int, ...]]:
    """Yields the process ids of Valkey, PostgreSQL and the consumer of usage, all of which work per request."""
    with own_servers() as addresses:
        migrate = [sys.executable, "manage.py", "migrate", "--noinput", "-v0"]
        environment = {**addresses, "HEADWORKS_DEBUG": "1", "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
        subprocess.run(migrate, cwd=ROOT, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)
        os.environ["REDIS_URL"] = addresses["REDIS_URL"]
        consumer = [sys.executable, "-m", "benchmarks.usage_consumer"]
        with running(consumer, environment, folder / "consumer.log") as process:
            yield (process.pid, *(server_pids()))


def server_pids() -> Iterator[int]:
    """The children of this process that are servers of `own_servers`: they were started before any proxy."""
    for place in Path(f"/proc/{os.getpid()}/task").iterdir():
        for child in (place / "children").read_text().split():
            if b"benchmarks.usage_consumer" not in Path(f"/proc/{child}/cmdline").read_bytes():
                yield int(child)


def main(rounds: int, seconds: float, peers: tuple[str, ...]) -> int:
    tools = Path(os.environ.get("HEADWORKS_SHARED", ROOT.parent / "shared")) / "bench"
    if not (tools / "load.py").exists():
        print(f"gateway: skipped, no load.py in {tools} (set HEADWORKS_SHARED)")
        return 0
    chosen = []
    for target in targets(peers):
        if target.missing:
            print(f"gateway: {target.name} is left out, it is not installed ({target.missing})")
        else:
            chosen.append(target)
    with tempfile.TemporaryDirectory(prefix="hwb-") as name, servers(Path(name)) as beside:
        own = next(target for target in chosen if target.name == "headworks")
        own.beside = beside
        plan = Plan(rounds, seconds, tools, Path(name))
        for mode in FIGURE:
            measure(mode, chosen, plan)
    result = summary(chosen)
    written = ROOT / "benchmarks" / "results" / f"gateway-{time.strftime('%Y%m%d-%H%M%S')}.json"
    written.parent.mkdir(exist_ok=True)
    raw = {target.name: target.rounds for target in chosen}
    written.write_text(json.dumps({"rounds": rounds, "seconds": seconds, "summary": result, "raw": raw}, indent=2))
    print(table(result))
    print(f"\nwritten to {written.relative_to(ROOT)}")
    return 0
