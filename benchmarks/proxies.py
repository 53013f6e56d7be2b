"""What is measured beside each other: the gateway, its peers, and the engine with nothing before it.

Peers are used where they are installed: `nginx` from the PATH, `vllm-router` and `litellm` from the PATH or from
`HEADWORKS_BENCH_PEERS/<name>/bin`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.processes import free_port
from controlplane.domain.admission.tiers import DEFAULT_TIERS
from controlplane.domain.degradation import Ladder, Step
from controlplane.domain.quotas.quota import Price, Quota
from controlplane.domain.routing import SNAPSHOT_SCHEMA, RoutedDeployment, RoutedKey, RoutedReplica, RoutingSnapshot
from controlplane.lib import ids, keys, valkey, wire

KEY = "hw-bench-key-0123456789"
MODEL = "mock"
REFERENCE = "vllm-router"


@dataclass(slots=True)
class Target:
    """One proxy. `start` gets (engine's port, own port, work folder) and returns its command and environment; it is
    None where requests go to the engine itself. `beside`: also counted when this one is measured (pids)."""

    name: str
    start: Callable[[int, int, Path], tuple[list[str], dict[str, str]]] | None
    missing: str = ""
    key: str = ""
    model: str = MODEL
    beside: tuple[int, ...] = ()
    rounds: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


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
    found = [Target("engine alone", None), Target("headworks", start_headworks, key=KEY)]
    for name in peers:
        folder, hint = programs[name]
        program = find_program(name, folder)
        start = functools.partial(starters[name], program or "")
        found.append(Target(name, start, "" if program else hint, KEY if name == "litellm" else ""))
    return found


def everything_on(engine: int) -> RoutingSnapshot:
    """Returns a snapshot in which a request passes a key, a tier, two quotas, the KV ledger, a ladder and a price."""
    replica = RoutedReplica(
        "bench", f"http://127.0.0.1:{engine}", "engine-key", MODEL, kv_capacity_tokens=40_000_000, max_num_seqs=4096
    )
    deployment = RoutedDeployment(
        "bench", MODEL, "simulated", True, (replica,), tiers=DEFAULT_TIERS, ladder=Ladder((Step("cap_tokens"),)),
        price=Price(0.1, 0.3),
    )  # fmt: skip
    limits = {"requests_per_minute": 100_000_000, "tokens_per_minute": 1_000_000_000_000}
    return RoutingSnapshot(
        SNAPSHOT_SCHEMA, time.time_ns(), time.time(), {MODEL: deployment}, {MODEL: MODEL},
        {ids.secret_hash(KEY): RoutedKey("bench", "bench", "bench")}, (Quota("q", "bench", "bench", limits=limits),),
    )  # fmt: skip


def start_headworks(engine: int, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    snapshot = everything_on(engine)
    address = os.environ["REDIS_URL"]
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
