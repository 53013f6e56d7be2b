from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.domain.ledger import corrections, measured, result
from controlplane.domain.observed import CACHE_LABELS, EngineFacts
from controlplane.domain.specs import known_models
from controlplane.lib import metrics_text
from engine_adapters.vllm import logs
from tests.domain.ledger.setups import GIB, make_card, make_setup

FACTS = EngineFacts(engine_version="0.10.2", weights_bytes=15 * GIB, kv_cache_bytes=54 * GIB, kv_cache_tokens=442_368)


def test_predicted_stands_beside_measured_with_its_error() -> None:
    ledger = result.work_out(make_setup(max_model_len=8192))
    lines = {line.name: line for line in measured.lines(ledger, measured.of_engine(FACTS))}
    assert lines["weights_bytes"].error == pytest.approx(15 / (ledger.budget.weights_bytes / GIB) - 1)
    assert lines["kv_cache_tokens"].measured == 442_368


def test_blocks_of_the_metric_stand_in_for_a_line_that_was_not_seen() -> None:
    ledger = result.work_out(make_setup(max_model_len=8192))
    found = measured.of_engine(EngineFacts(), {"num_gpu_blocks": "1000", "block_size": "32"})
    assert measured.cache_bytes(ledger, found) == 1000 * 32 * 131072


def test_labels_that_are_no_numbers_are_left_out() -> None:
    found = measured.of_engine(EngineFacts(), {"num_gpu_blocks": "None", "block_size": "", "kv_cache_size_tokens": "²"})
    assert (found.gpu_blocks, found.block_tokens, found.kv_cache_tokens) == (None, None, None)


def test_what_was_learned_brings_the_next_prediction_nearer() -> None:
    setup = make_setup(max_model_len=8192)
    plain = result.work_out(setup)
    start = measured.of_engine(FACTS)
    learned = corrections.learn([measured.comparison(plain, start)] * 5)
    corrected = result.work_out(setup, learned)
    assert plain.available_bytes is not None
    assert corrected.available_bytes is not None
    assert abs(corrected.available_bytes - 54 * GIB) < abs(plain.available_bytes - 54 * GIB) / 2
    assert any("5 measured starts" in note for note in corrected.assumptions)


@pytest.mark.parametrize(
    ("log", "stages", "length"), [("cpu-eager-start", 1, 2048), ("cpu-pp2-dies-on-first-token", 2, 1024)]
)
def test_the_cache_of_a_real_start_comes_out_to_the_token(
    shared_data: Path, log: str, stages: int, length: int
) -> None:
    """SmolLM2-135M on CPU, with 1 GiB for the cache of each rank."""
    facts = logs.read_facts((shared_data / "engine_logs" / f"vllm-0.32.0-{log}.log").read_text().splitlines())
    model = known_models.find("HuggingFaceTB/SmolLM2-135M-Instruct")
    setup = make_setup(
        model,
        version=facts.engine_version or "",
        card=make_card(None, "cpu"),
        pipeline_parallel=stages,
        max_model_len=length,
        kv_cap_bytes=GIB,
    )
    ledger = result.work_out(setup)
    assert ledger.verdict.fits
    assert ledger.tokens == facts.kv_cache_tokens
    assert ledger.concurrency(length) == pytest.approx(facts.max_concurrency)
    lines = {line.name: line for line in measured.lines(ledger, measured.of_engine(facts))}
    assert lines["kv_cache_tokens"].error == 0
    assert lines["kv_cache_bytes"].error == 0


def test_a_capped_cache_teaches_nothing_about_what_is_left() -> None:
    ledger = result.work_out(make_setup(max_model_len=8192, kv_cap_bytes=10 * GIB))
    found = measured.comparison(ledger, measured.of_engine(FACTS))
    assert found.predicted_kv_bytes is None
    assert found.measured_weights_bytes == 15 * GIB


def test_starts_are_alike_by_version_card_and_family() -> None:
    ledger = result.work_out(make_setup(card=make_card(23.58, "RTX 3090")))
    key = measured.key_of(ledger, measured.of_engine(FACTS))
    assert (key.engine_version, key.accelerator, key.family) == ("0.10", "RTX 3090", "llama")


def make_labels(shared_data: Path, recording: str) -> dict[str, str]:
    return metrics_text.labels_of((shared_data / "metrics" / recording).read_bytes(), ("vllm:cache_config_info",))


def test_a_recorded_scrape_tells_the_cache_to_the_block(shared_data: Path) -> None:
    found = measured.of_engine(EngineFacts(), make_labels(shared_data, "vllm-0.32.0-cpu.txt"))
    assert (found.gpu_blocks, found.block_tokens, found.kv_cache_tokens) == (364, 128, 46592)
    assert (found.kv_cache_bytes, found.cache_cap_bytes, found.cache_dtype) == (GIB, GIB, "auto")
    assert (found.max_concurrency, found.utilization) == (22.75, 0.92)
    assert set(found.sources.values()) == {"metrics"}


def test_an_old_scrape_tells_tokens_by_its_blocks(shared_data: Path) -> None:
    found = measured.of_engine(EngineFacts(), make_labels(shared_data, "vllm-0.4.3.txt"))
    assert (found.gpu_blocks, found.kv_cache_tokens, found.utilization) == (7281, 7281 * 16, 0.9)
    assert found.kv_cache_bytes is None


def test_each_value_says_where_it_is_from(shared_data: Path) -> None:
    log = (shared_data / "engine_logs" / "vllm-0.32.0-cpu-eager-start.log").read_text().splitlines()
    labels = make_labels(shared_data, "vllm-0.32.0-cpu.txt")
    found = measured.of_engine(replace(logs.read_facts(log), cache_config=labels))
    assert found.sources == {
        "weights_bytes": "log", "kv_cache_bytes": "both", "kv_cache_tokens": "both", "gpu_blocks": "metrics",
        "block_tokens": found.sources["block_tokens"], "max_concurrency": "metrics",
    }  # fmt: skip
    assert found.block_tokens == 128
    assert all(one.name == "block_tokens" for one in found.contradictions)


def test_metrics_count_where_a_log_contradicts_and_memory_is_the_logs() -> None:
    facts = replace(FACTS, cache_config={"kv_cache_size_tokens": "442000", "kv_cache_memory_bytes": str(9 * GIB)})
    found = measured.of_engine(facts)
    assert (found.kv_cache_tokens, found.sources["kv_cache_tokens"]) == (442_000, "metrics")
    assert (found.kv_cache_bytes, found.sources["kv_cache_bytes"]) == (54 * GIB, "log")
    assert {(one.name, one.log, one.metrics) for one in found.contradictions} == {
        ("kv_cache_tokens", 442_368, 442_000),
        ("kv_cache_bytes", 54 * GIB, 9 * GIB),
    }


def test_blocks_say_nothing_against_a_log_because_hybrids_share_them() -> None:
    found = measured.of_engine(replace(FACTS, cache_config={"num_gpu_blocks": "100", "block_size": "16"}))
    assert (found.kv_cache_tokens, found.sources["kv_cache_tokens"]) == (442_368, "log")
    assert not found.contradictions


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e400", "9" * 400, "None", "", "0x10", "٣"])
def test_a_label_of_nonsense_measures_nothing(text: str) -> None:
    labels = dict.fromkeys(CACHE_LABELS, text)
    found = measured.of_engine(EngineFacts(), labels)
    assert (found.gpu_blocks, found.kv_cache_tokens, found.kv_cache_bytes) == (None, None, None)
