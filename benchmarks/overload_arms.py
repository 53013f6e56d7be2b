"""The two ways to one real engine that `benchmarks.overload` compares: to itself, and through the gateway.

Either of an installation that runs (`installed`), or an engine and a gateway of their own (`own`).
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.open_loop import Arm, Slo
from benchmarks.processes import free_port, running
from controlplane.domain.desired import NodeDesired
from controlplane.domain.routing import SNAPSHOT_SCHEMA, RoutedDeployment, RoutedKey, RoutedReplica, RoutingSnapshot
from controlplane.lib import ids, wire
from workers.node.records import ReplicaRecord

KEY = "hw-bench-key-0123456789"
NAME = "smollm2"
KV_TOKENS = 46_592  # 1 GiB of SmolLM2's cache
START_LIMIT_S = 240.0
SNAPSHOT_S = 3.0  # until a change is known to the gateway


@contextlib.contextmanager
def engine(python: str, model: str, folder: Path, seats: int) -> Iterator[int]:
    """Yields the port of a real vLLM that answers."""
    port = free_port()
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", NAME]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048", "--enforce-eager"]
    command += ["--max-num-seqs", str(seats), "--disable-uvicorn-access-log"]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    with running(command, environment, folder / "engine.log") as process:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                break
            time.sleep(1.0)
        else:
            raise RuntimeError(f"the engine did not start; see {(folder / 'engine.log').read_text()[-2000:]}")
        yield port


@contextlib.contextmanager
def gateway(engine_port: int, folder: Path, slo: Slo, seats: int) -> Iterator[int]:
    """Yields the port of a gateway before the engine; its snapshot lies on disk, so it needs no Valkey."""
    url = f"http://127.0.0.1:{engine_port}"
    replica = RoutedReplica("r0", url, "k", NAME, kv_capacity_tokens=KV_TOKENS, max_num_seqs=seats)
    deployment = RoutedDeployment(
        "d", NAME, "vllm", False, (replica,), ttft_target_s=slo.ttft_s, tpot_target_s=slo.tpot_s
    )
    key = RoutedKey("k", "t", "bench", tier="interactive")
    known = {ids.secret_hash(KEY): key}
    snapshot = RoutingSnapshot(SNAPSHOT_SCHEMA, 1, time.time(), {NAME: deployment}, {NAME: NAME}, known)
    (folder / "home" / "gateway").mkdir(parents=True, exist_ok=True)
    (folder / "home" / "gateway" / "snapshot.json").write_bytes(wire.encode(snapshot))
    port = free_port()
    environment = {"REDIS_URL": f"unix://{folder}/none.sock", "HEADWORKS_HOME": str(folder / "home")}
    environment["HEADWORKS_GATEWAY_PORT"] = str(port)
    with running([sys.executable, "-m", "controlplane.gateway"], environment, folder / "gateway.log"):
        for _ in range(100):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2)
                break
            time.sleep(0.1)
        yield port


@contextlib.contextmanager
def own(python: str, model: str, folder: Path, slo: Slo, seats: int) -> Iterator[tuple[list[Arm], int]]:
    """Yields both arms on an engine and a gateway that run for this only, and the gateway's port."""
    with engine(python, model, folder, seats) as port, gateway(port, folder, slo, seats) as gateway_port:
        yield [Arm("vllm", port, "none", NAME), Arm("headworks", gateway_port, KEY, NAME)], gateway_port


@contextlib.contextmanager
def installed(home: Path, slo: Slo) -> Iterator[tuple[list[Arm], int]]:
    """Yields both arms on the engine of an installation that runs (`make up`), and its gateway's port.

    It gets an interactive key and the objective for as long as it lasts; both are taken away again.
    """
    known = json.loads((home / "first-run.json").read_text())
    rest = Rest(known["console_url"], known["api_token"])
    deployment = known["model"]
    tenant = rest.call("GET", "tenants/")["results"][0]["name"]
    made = rest.call("POST", f"tenants/{tenant}/keys/", {"name": "overload benchmark"})
    key = f"tenants/{tenant}/keys/{made['key']['id']}/"
    try:
        rest.call("PUT", f"{key}tier/", {"tier": "interactive"})
        rest.call("PUT", f"deployments/{deployment}/slo/", {"ttft_s": slo.ttft_s, "tpot_s": slo.tpot_s})
        time.sleep(SNAPSHOT_S)
        port, secret, model = replica_of(home, deployment)
        gateway_port = urlsplit(known["gateway_url"]).port or 80
        yield (
            [
                Arm("vllm", port, secret, model),
                Arm("headworks", gateway_port, made["secret"], deployment),
            ],
            gateway_port,
        )
    finally:
        rest.call("DELETE", f"deployments/{deployment}/slo/")
        rest.call("DELETE", key)


class Rest:
    """REST of an installation."""

    def __init__(self, base: str, token: str) -> None:
        self._base = base
        self._token = token

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Returns what it answers; raises urllib.error.HTTPError where it refuses."""
        request = urllib.request.Request(
            f"{self._base.rstrip('/')}/api/v1/{path}",
            None if body is None else json.dumps(body).encode(),
            {"authorization": f"Bearer {self._token}", "content-type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None


def replica_of(home: Path, deployment: str) -> tuple[int, str, str]:
    """Returns port, key and model name of a replica of the deployment on this machine."""
    for place in home.glob("node/*/desired.json"):
        for wish in wire.decode(place.read_bytes(), NodeDesired).replicas:
            record = place.parent / "replicas" / wish.replica_id / "record.json"
            if wish.deployment == deployment and record.exists():
                url = wire.decode(record.read_bytes(), ReplicaRecord).url
                if url:
                    return urlsplit(url).port or 80, wish.key, wish.spec.served_model_name
    raise SystemExit(f"overload: no replica of {deployment} runs on this machine under {home}")
