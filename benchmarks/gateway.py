"""The gateway against its peers: CPU for a plain request and for a streamed event, all in one run.

Everything runs on this machine: a stand-in for an engine, one proxy at a time under load, a cheap client. Rounds are
interleaved (each round visits every proxy), so that a busy neighbour hits all alike; ratios are taken within a round
and their median is reported. CPU per unit is the figure to trust, rate and latency show that nothing broke.

The client and the engine come from `HEADWORKS_SHARED/bench`. Peers are used where they are installed: `nginx` from the
PATH, `vllm-router` and `litellm` from the PATH or from `HEADWORKS_BENCH_PEERS/<name>/bin`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.domain.routing import SNAPSHOT_SCHEMA, RoutedDeployment, RoutedKey, RoutedReplica, RoutingSnapshot
from controlplane.embedded import valkey as embedded_valkey
from controlplane.lib import ids, keys, valkey, wire

ROOT = Path(__file__).resolve().parent.parent
KEY = "hw-bench-key-0123456789"
MODEL = "mock"
REFERENCE = "vllm-router"
ENGINE_ARGUMENTS: Mapping[str, list[str]] = {"plain": [], "stream": ["--ttft-ms", "20", "--tpot-ms", "20"]}
LOAD_ARGUMENTS: Mapping[str, list[str]] = {
    "plain": ["--conc", "32"],
    "stream": ["--conc", "400", "--tokens", "100"],
}
FIGURE = {"plain": "cpu_us_per_req", "stream": "cpu_us_per_event"}
UNIT = {"plain": "a plain request, 32 at a time", "stream": "a streamed event, 400 streams of 50 tok/s"}


@dataclass(slots=True)
class Target:
    """One proxy. `start` gets (engine's port, own port, work folder) and returns its command and environment."""

    name: str
    start: Callable[[int, int, Path], tuple[list[str], dict[str, str]]]
    missing: str = ""
    key: str = ""
    model: str = MODEL
    rounds: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def find_program(name: str, peer: str) -> str | None:
    folder = os.environ.get("HEADWORKS_BENCH_PEERS")
    if folder and (found := shutil.which(name, path=str(Path(folder) / peer / "bin"))):
        return found
    return shutil.which(name)


def targets(peers: tuple[str, ...]) -> list[Target]:
    """Returns the gateway and the named peers; those that are not installed say so in `missing`."""
    programs = {
        "nginx": ("nginx", "apt-get install nginx-light"),
        REFERENCE: ("router", "pip install vllm-router==0.1.17"),
    }
    programs["litellm"] = ("litellm", "pip install 'litellm[proxy]'")
    starters = {"nginx": start_nginx, REFERENCE: start_router, "litellm": start_litellm}
    found = [Target("headworks", start_headworks, key=KEY)]
    for name in peers:
        folder, hint = programs[name]
        program = find_program(name, folder)
        start = functools.partial(starters[name], program or "")
        found.append(Target(name, start, "" if program else hint, KEY if name == "litellm" else ""))
    return found


def start_headworks(engine: int, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    replica = RoutedReplica("bench", f"http://127.0.0.1:{engine}", "engine-key", MODEL)
    snapshot = RoutingSnapshot(
        SNAPSHOT_SCHEMA,
        time.time_ns(),
        time.time(),
        {MODEL: RoutedDeployment("bench", MODEL, "simulated", True, (replica,))},
        {MODEL: MODEL},
        {ids.secret_hash(KEY): RoutedKey("bench", "bench", "bench")},
    )
    address = embedded_valkey.url(folder / "v.sock")
    with contextlib.closing(valkey.connect(address)) as client:
        client.set(keys.snapshot(), wire.encode(snapshot))
    environment = {"REDIS_URL": address, "HEADWORKS_HOME": str(folder / "home"), "HEADWORKS_GATEWAY_PORT": str(port)}
    return [sys.executable, "-m", "controlplane.gateway"], environment


def start_nginx(program: str, engine: int, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    config = folder / f"nginx-{port}.conf"
    config.write_text(
        f"""daemon off; worker_processes 1; pid {folder}/nginx-{port}.pid; error_log /dev/null crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {folder}/nginx-body; proxy_temp_path {folder}/nginx-proxy;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 256; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096; keepalive_requests 10000000;
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""
    )
    return [program, "-c", str(config)], {}


def start_router(program: str, engine: int, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    command = [program, "--host", "127.0.0.1", "--port", str(port), "--worker-urls", f"http://127.0.0.1:{engine}"]
    command += ["--policy", "round_robin", "--log-level", "error", "--prometheus-port", str(free_port())]
    return command, {}


def start_litellm(program: str, engine: int, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    config = folder / "litellm.yaml"
    config.write_text(
        json.dumps(
            {
                "model_list": [
                    {
                        "model_name": MODEL,
                        "litellm_params": {
                            "model": f"hosted_vllm/{MODEL}",
                            "api_base": f"http://127.0.0.1:{engine}/v1",
                            "api_key": "engine-key",
                        },
                    }
                ],
                "general_settings": {"master_key": KEY},
            }
        )
    )
    return [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"], {}


@contextlib.contextmanager
def running(command: list[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


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
    command = [sys.executable, str(tools / "load.py"), mode, "--url", f"http://127.0.0.1:{port}", "--pid", str(pid)]
    command += ["--model", target.model, "--key", target.key, "--secs", str(seconds), *LOAD_ARGUMENTS[mode]]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 120).stdout
    figures: dict[str, Any] = json.loads(output)
    return figures


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, where the tools are, and where temporary files go."""

    rounds: int
    seconds: float
    tools: Path
    folder: Path


def measure(mode: str, chosen: list[Target], plan: Plan) -> None:
    """Runs the rounds of one mode; each target keeps the figures of each round."""
    engine = free_port()
    with contextlib.ExitStack() as stack:
        command = [sys.executable, str(plan.tools / "mock_engine.py"), "--port", str(engine), *ENGINE_ARGUMENTS[mode]]
        stack.enter_context(running(command, {}, plan.folder / "engine.log"))
        started = []
        for target in chosen:
            port = free_port()
            command, environment = target.start(engine, port, plan.folder)
            process = stack.enter_context(running(command, environment, plan.folder / f"{target.name}.log"))
            wait_for_answer(target, port, process)
            started.append((target, (port, process.pid)))
        for number in range(plan.rounds):
            turn = number % len(started)
            for target, at in started[turn:] + started[:turn]:
                figures = load(plan.tools, mode, target, at, plan.seconds)
                target.rounds.setdefault(mode, []).append(figures)
                print(
                    f"  {mode} round {number + 1}/{plan.rounds} {target.name}: {figures[FIGURE[mode]]} µs", flush=True
                )


def summary(chosen: list[Target]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Returns mode -> target -> median figures and the median ratio to the reference within a round."""
    result: dict[str, dict[str, dict[str, float | None]]] = {}
    reference = next((target for target in chosen if target.name == REFERENCE), None)
    for mode, figure in FIGURE.items():
        rows = result.setdefault(mode, {})
        for target in chosen:
            rounds = target.rounds.get(mode)
            if not rounds:
                continue
            ratio = None
            if reference is not None and reference.rounds.get(mode):
                pairs = zip(rounds, reference.rounds[mode], strict=True)
                ratio = round(statistics.median(mine[figure] / theirs[figure] for mine, theirs in pairs), 3)
            rows[target.name] = {
                "cpu_us": statistics.median(one[figure] for one in rounds),
                "ratio_to_vllm_router": ratio,
                "p99_ms": statistics.median(one["p99_ms"] for one in rounds),
                "per_s": statistics.median(one["rps" if mode == "plain" else "events_s"] for one in rounds),
                "bad": sum(sum(one["bad"].values()) for one in rounds),
            }
    return result


def table(result: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> str:
    lines = []
    for mode, rows in result.items():
        lines.append(f"\n{UNIT[mode]}")
        lines.append(f"  {'':14}{'CPU µs':>10}{'ratio':>9}{'per s':>10}{'p99 ms':>10}{'failed':>8}")
        for name, row in rows.items():
            ratio = row["ratio_to_vllm_router"]
            shown = "-" if ratio is None else f"{ratio:.2f}"
            figures = f"{row['per_s']:>10.0f}{row['p99_ms']:>10.1f}{row['bad']:>8.0f}"
            lines.append(f"  {name:14}{row['cpu_us']:>10.1f}{shown:>9}{figures}")
    return "\n".join(lines)


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
    with tempfile.TemporaryDirectory(prefix="hwb-") as name:
        folder = Path(name)
        command = embedded_valkey.server_command(folder, folder / "v.sock", durable=False)
        with running(command, {}, folder / "valkey.log"):
            while not (folder / "v.sock").exists():
                time.sleep(0.05)
            plan = Plan(rounds, seconds, tools, folder)
            measure("plain", chosen, plan)
            # LiteLLM can't keep up with 400 streams, so its figure would be that of another load
            measure("stream", [one for one in chosen if one.name != "litellm"], plan)
    result = summary(chosen)
    written = ROOT / "benchmarks" / "results" / f"gateway-{time.strftime('%Y%m%d-%H%M%S')}.json"
    written.parent.mkdir(exist_ok=True)
    raw = {target.name: target.rounds for target in chosen}
    written.write_text(json.dumps({"rounds": rounds, "seconds": seconds, "summary": result, "raw": raw}, indent=2))
    print(table(result))
    print(f"\nwritten to {written.relative_to(ROOT)}")
    return 0
