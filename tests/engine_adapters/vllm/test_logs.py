from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine_adapters.vllm.logs import read_facts

GIB = 1024**3
MOST_CHARACTERS = 500  # the node worker cuts lines here


def read_log(path: Path) -> list[str]:
    return [line[:MOST_CHARACTERS] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("start", ["compiled-start", "eager-start"])
def test_a_real_start_tells_its_memory(shared_data: Path, start: str) -> None:
    facts = read_facts(read_log(shared_data / "engine_logs" / f"vllm-0.32.0-cpu-{start}.log"))
    assert facts.engine_version == "0.32.0"
    assert facts.weights_bytes == pytest.approx(0.25 * GIB)
    assert facts.kv_cache_bytes == GIB
    assert facts.kv_cache_tokens == 46_592
    assert facts.max_concurrency == 22.75


def test_two_ranks_tell_what_both_can_hold(shared_data: Path) -> None:
    log = shared_data / "engine_logs" / "vllm-0.32.0-cpu-pp2-dies-on-first-token.log"
    facts = read_facts(read_log(log))
    assert (facts.kv_cache_tokens, facts.max_concurrency) == (93_184, 91.0)


def test_the_block_size_is_read_from_the_arguments() -> None:
    line = "(APIServer pid=1) INFO 11-29 [api_utils.py:286] non-default args: {'port': 1, 'block_size': 128}"
    assert read_facts([line]).kv_block_size_tokens == 128


def test_nothing_is_made_up_of_an_empty_log() -> None:
    facts = read_facts([])
    assert facts == type(facts)()


def test_only_the_last_start_counts() -> None:
    lines = [
        "INFO [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: model='m'",
        "INFO [x.py:1] GPU KV cache size: 1,000 tokens",
        "INFO [core.py:58] Initializing a V1 LLM engine (v0.9.0) with config: model='m'",
        "INFO [x.py:1] GPU KV cache size: 2,000 tokens",
    ]
    facts = read_facts(lines)
    assert (facts.engine_version, facts.kv_cache_tokens) == ("0.9.0", 2000)


def test_other_versions_in_the_log_are_not_the_engine_s() -> None:
    lines = ["INFO 1 [pynccl.py:69] vLLM is using nccl version 2.20.5", "INFO 1 [a.py:1] version 0.32.0"]
    assert read_facts(lines).engine_version is None


def test_the_sentences_of_v0_are_read() -> None:
    lines = [
        "INFO 01-14 12:36:50 api_server.py:585] vLLM API server version 0.6.6.post1",
        "INFO 01-14 12:36:51 model_runner.py:1099] Loading model weights took 7.9692 GB",
        "INFO 01-14 12:36:52 worker.py:240] model weights take 7.97GiB; non_torch_memory takes 0.05GiB; PyTorch "
        "activation peak memory takes 1.26GiB; the rest of the memory reserved for KV Cache is 11.91GiB.",
        "INFO 01-14 12:36:52 gpu_executor.py:76] # GPU blocks: 1952, # CPU blocks: 2048",
        "INFO 01-14 12:36:52 gpu_executor.py:80] Maximum concurrency for 20000 tokens per request: 1.56x",
    ]
    facts = read_facts(lines)
    assert facts.engine_version == "0.6.6.post1"
    assert facts.weights_bytes == round(7.9692 * GIB)
    assert facts.kv_cache_bytes == round(11.91 * GIB)
    assert facts.kv_cache_tokens == 1952 * 16
    assert facts.max_concurrency == 1.56


def lines_of(case: dict[str, Any]) -> list[str]:
    """Returns the figures of a recorded start in the words of its time (spec.md beside the cases has them)."""
    new = case["engine"] != "V0"
    lines = []
    if case["weights_gib"]:
        lines.append(
            f"Model loading took {case['weights_gib']} GiB memory and 12.3 seconds"
            if new
            else f"Loading model weights took {case['weights_gib']} GB"
        )
    if case["kv_cache_gib"] is not None:
        lines.append(
            f"Available KV cache memory: {case['kv_cache_gib']} GiB"
            if new
            else f"the rest of the memory reserved for KV Cache is {case['kv_cache_gib']}GiB."
        )
    if case["kv_cache_tokens"]:
        lines.append(f"GPU KV cache size: {case['kv_cache_tokens']:,} tokens")
    elif case["gpu_blocks"]:
        lines.append(f"# GPU blocks: {case['gpu_blocks']}, # CPU blocks: 2048")
    if case["max_concurrency"]:
        length = case["max_model_len"] or 4096
        lines.append(f"Maximum concurrency for {length:,} tokens per request: {case['max_concurrency']:.2f}x")
    return [f"(Worker_TP0 pid=7) INFO 03-24 04:03:55 [some.py:1] {line}" for line in lines]


def test_the_figures_of_every_recorded_start_are_read(shared_data: Path) -> None:
    cases = json.loads((shared_data / "ledger" / "cases.json").read_text(encoding="utf-8"))
    for case in cases:
        facts = read_facts(lines_of(case))
        where = f"case {case['case_id']}"
        if case["weights_gib"]:
            assert facts.weights_bytes == round(case["weights_gib"] * GIB), where
        if case["kv_cache_gib"] is not None:
            assert facts.kv_cache_bytes == round(case["kv_cache_gib"] * GIB), where
        if case["kv_cache_tokens"]:
            assert facts.kv_cache_tokens == case["kv_cache_tokens"], where
        elif case["gpu_blocks"]:
            assert facts.kv_cache_tokens == case["gpu_blocks"] * 16, where
        if case["max_concurrency"]:
            assert facts.max_concurrency == pytest.approx(case["max_concurrency"], abs=0.005), where
