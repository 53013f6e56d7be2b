"""Overload on a real engine: goodput of the bare engine and of the gateway before it, in one run.

Open-loop Poisson arrivals of streams (20-150 prompt and 20-60 output tokens), each rate in turn on both arms.
*Goodput* is whole answers a second inside the SLO (TTFT, mean TPOT). One engine serves both arms, one after the other,
with a pause in which it runs empty.

    python -m benchmarks.overload --python ENGINE_PYTHON --model MODEL_FOLDER --rates 6,8,12,18 --seconds 20
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import free_port, running
from controlplane.domain.routing import SNAPSHOT_SCHEMA, RoutedDeployment, RoutedKey, RoutedReplica, RoutingSnapshot
from controlplane.lib import ids, wire

KEY = "hw-bench-key-0123456789"
NAME = "smollm2"
KV_TOKENS = 46_592  # 1 GiB of SmolLM2's cache
START_LIMIT_S = 240.0
EMPTY_S = 3.0
WORDS = ["the", "river", "runs", "past", "an", "old", "mill", "and", "brings", "new", "water", "to", "sea"]


@dataclass(frozen=True, slots=True)
class Slo:
    ttft_s: float
    tpot_s: float


@dataclass(slots=True)
class Outcome:
    """One request as its client saw it."""

    status: int = 0
    ttft_s: float = 0.0
    tpot_s: float = 0.0
    told_s: float = 0.0  # until the head of the answer

    def is_good(self, slo: Slo) -> bool:
        return self.status == 200 and self.ttft_s <= slo.ttft_s and self.tpot_s <= slo.tpot_s


@dataclass(slots=True)
class Arm:
    """Where one arm's requests go."""

    name: str
    port: int
    key: str
    outcomes: dict[float, list[Outcome]] = field(default_factory=dict)


async def ask(arm: Arm, body: bytes) -> Outcome:
    """Sends one stream and returns what came of it."""
    found, began = Outcome(), time.perf_counter()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
    head += f"authorization: Bearer {arm.key}\r\ncontent-length: {len(body)}\r\n\r\n"
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", arm.port, limit=1 << 20)
    except OSError:
        return found
    try:
        writer.write(head.encode() + body)
        first = await reader.readline()
        found.told_s = time.perf_counter() - began
        status, events, first_at, last_at = int(first.split()[1]), 0, 0.0, 0.0
        while line := await reader.readline():
            if line.startswith(b"data: {") and b'"content":' in line:
                last_at = time.perf_counter()
                first_at = first_at or last_at
                events += 1
            elif line.startswith(b"data: [DONE]"):
                found.status = status
        if status != 200:
            found.status = status
        elif events:
            found.ttft_s = first_at - began
            found.tpot_s = (last_at - first_at) / max(1, events - 1)
        else:
            found.status = 0
    except (OSError, ValueError, asyncio.IncompleteReadError, IndexError):
        pass
    finally:
        writer.close()
    return found


def make_body(chance: random.Random) -> bytes:
    text = " ".join(chance.choice(WORDS) for _ in range(chance.randint(10, 130)))
    messages = [{"role": "user", "content": text}]
    fields = {"model": NAME, "messages": messages, "max_tokens": chance.randint(20, 60), "stream": True}
    return json.dumps({**fields, "ignore_eos": True, "temperature": 0.0}).encode()


async def offer(arm: Arm, rate: float, seconds: float, seed: int) -> None:
    """Offers `rate` requests a second for a time and waits for all of them."""
    chance = random.Random(seed)
    tasks: list[asyncio.Task[Outcome]] = []
    at, until = time.perf_counter(), time.perf_counter() + seconds
    while at < until:
        at += chance.expovariate(rate)
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(arm, make_body(chance))))
    arm.outcomes.setdefault(rate, []).extend(await asyncio.gather(*tasks))


def show(arms: list[Arm], slo: Slo, seconds: float) -> None:
    print(f"\nSLO: TTFT {slo.ttft_s:g} s, TPOT {slo.tpot_s * 1000:g} ms; requests a second")
    print(f"  {'offered':>8}  {'arm':10}{'goodput':>8}{'whole':>8}{'in SLO':>8}{'refused':>9}{'told p99':>10}")
    for rate in arms[0].outcomes:
        for arm in arms:
            rows = arm.outcomes[rate]
            good = sum(one.is_good(slo) for one in rows)
            whole = sum(one.status == 200 for one in rows)
            told = sorted(one.told_s for one in rows if one.status in (429, 503))
            p99 = f"{told[int(0.99 * (len(told) - 1))]:.2f} s" if told else "-"
            share = f"{good / whole:.0%}" if whole else "-"
            figures = f"{good / seconds:>8.2f}{whole / seconds:>8.2f}{share:>8}{len(told) / seconds:>9.2f}{p99:>10}"
            print(f"  {rate:>8g}  {arm.name:10}{figures}")


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


async def compare(arms: list[Arm], rates: list[float], seconds: float) -> None:
    for arm in arms:
        await offer(arm, 2.0, 5.0, seed=0)  # caches warm, seats known
        arm.outcomes.clear()
    for number, rate in enumerate(rates):
        for arm in arms if number % 2 else arms[::-1]:
            await offer(arm, rate, seconds, seed=number)
            await asyncio.sleep(EMPTY_S)
            print(f"  {rate:g}/s {arm.name}: {len(arm.outcomes[rate])} asked", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default=os.environ.get("HEADWORKS_ENGINE_PYTHON", ""))
    parser.add_argument("--model", default=os.environ.get("HEADWORKS_MODEL_PATH", ""))
    parser.add_argument("--rates", default="6,8,12,18")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--ttft", type=float, default=1.0, help="seconds")
    parser.add_argument("--tpot", type=float, default=0.08, help="seconds")
    parser.add_argument("--seats", type=int, default=256, help="the engine's max_num_seqs")
    given = parser.parse_args()
    if not Path(given.python).is_file() or not Path(given.model, "config.json").is_file():
        print("overload: skipped, it needs --python (of the engine's environment) and --model (its folder)")
        return 0
    slo = Slo(given.ttft, given.tpot)
    rates = [float(one) for one in given.rates.split(",")]
    with tempfile.TemporaryDirectory(prefix="hwo-") as name:
        folder = Path(name)
        with (
            engine(given.python, given.model, folder, given.seats) as port,
            gateway(port, folder, slo, given.seats) as own,
        ):
            arms = [Arm("vllm", port, "none"), Arm("headworks", own, KEY)]
            asyncio.run(compare(arms, rates, given.seconds))
            with urllib.request.urlopen(f"http://127.0.0.1:{own}/metrics") as answer:
                lines = answer.read().decode().splitlines()
    show(arms, slo, given.seconds)
    print("\n".join(one for one in lines if one.startswith(("headworks_gateway_seats{", "headworks_gateway_refused"))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
