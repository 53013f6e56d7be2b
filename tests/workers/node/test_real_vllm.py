"""Real vLLM under the real node worker."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.domain.desired import AssignedAccelerator, EngineSpec, ReplicaDesired
from controlplane.domain.lifecycle import Limits
from engine_adapters.base import WarmUpRequest
from tests.workers.node import bench as bench_module
from tests.workers.node.bench import Bench, eventually, make_replica
from tests.workers.node.worker_process import Worker
from workers.node import probes, processes

pytestmark = [pytest.mark.services, pytest.mark.engine]

LIMITS = Limits(start_timeout_s=300, warmup_timeout_s=120, backoff_base_s=300, backoff_cap_s=300)


@pytest.fixture
def engine_python(monkeypatch: pytest.MonkeyPatch) -> str:
    """The interpreter of the engine's environment; vLLM on two shared cores needs minutes of patience."""
    python, model = os.environ.get("HEADWORKS_ENGINE_PYTHON", ""), os.environ.get("HEADWORKS_MODEL_PATH", "")
    if not Path(python).is_file() or not Path(model, "config.json").is_file():
        pytest.skip("real vLLM needs HEADWORKS_ENGINE_PYTHON and HEADWORKS_MODEL_PATH (make up prepares both)")
    monkeypatch.setattr(bench_module, "PATIENCE_S", 300.0)
    return python


def make_vllm(pipeline_parallel: int = 1) -> ReplicaDesired:
    settings = {"enforce_eager": True, "max_model_len": 2048, "max_num_seqs": 16}
    spec = EngineSpec(
        "vllm", os.environ["HEADWORKS_MODEL_PATH"], "smollm2", settings, pipeline_parallel=pipeline_parallel
    )
    cores = tuple(AssignedAccelerator(f"cpu-{core}", "cpu", str(core)) for core in range(pipeline_parallel))
    return replace(make_replica(limits=LIMITS), spec=spec, accelerators=cores, drain_timeout_s=5.0)


def generate(url: str, key: str) -> int:
    body = {"model": "smollm2", "prompt": "The capital of France is", "max_tokens": 4}
    return probes.generate(url, WarmUpRequest("/v1/completions", body), key, 60).output_tokens


def engine_core(identity: processes.Identity) -> int:
    """Returns the process in which vLLM's steps run; its leader, the HTTP server, goes on answering without it."""
    found = [
        one.pid for one in processes.members(identity) if b"EngineCore" in Path(f"/proc/{one.pid}/cmdline").read_bytes()
    ]
    assert len(found) == 1, found
    return found[0]


def test_vllm_serves_on_over_a_killed_worker_and_is_given_up_when_it_hangs(
    bench: Bench, worker: Worker, engine_python: str
) -> None:
    worker.start(engine_python)
    bench.want(make_vllm())
    ready = bench.wait_for("ready")
    identity, first = bench.identity(), bench.report()
    assert ready.url and generate(ready.url, "hwr-r1") == 4
    assert ready.facts.engine_version and ready.facts.kv_cache_tokens
    assert {one.group for one in processes.members(identity)} == {identity.pid}, "its workers stay in its group"
    worker.end(signal.SIGKILL)
    assert generate(ready.url, "hwr-r1") == 4
    worker.start(engine_python)
    eventually(lambda: (one := bench.report()) and first and one.incarnation != first.incarnation, "a new report")
    seen = bench.seen()
    assert seen and (seen.state, seen.seq) == ("ready", ready.seq)
    assert processes.is_alive(identity)
    quick = replace(LIMITS, quiet_after_s=2.0, quiet_generation_s=3.0, stalled_after_s=8.0, term_grace_s=1.0)
    bench.want(replace(make_vllm(), limits=quick))
    os.kill(engine_core(identity), signal.SIGSTOP)
    assert bench.wait_for("failed").transitions[-1].reason.code == "stalled"
    eventually(lambda: not bench.processes(), "the whole group is gone, though it could not hear SIGTERM")
    bench.want_stop(drain_timeout_s=5.0)
    bench.wait_for("stopped")


def test_vllm_that_answers_health_and_dies_at_its_first_generation_never_becomes_ready(
    bench: Bench, worker: Worker, engine_python: str
) -> None:
    worker.start(engine_python)
    bench.want(make_vllm(pipeline_parallel=2))
    failed = bench.wait_for("failed")
    assert [one.to_state for one in failed.transitions] == ["starting", "warming", "failed"]
    assert failed.transitions[-1].reason.log_tail
    bench.want_stop(drain_timeout_s=0.0)
    bench.wait_for("stopped")
