from __future__ import annotations

import math
from pathlib import Path

import pytest

from controlplane.lib import metrics_text
from controlplane.lib.metrics_text import Reader, Wanted

SCALARS = (
    Wanted("running", ("vllm:num_requests_running", "ray_vllm:num_requests_running")),
    Wanted("waiting", ("vllm:num_requests_waiting", "ray_vllm:num_requests_waiting")),
    Wanted(
        "kv_usage",
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "ray_vllm:gpu_cache_usage_perc"),
        "mean",
    ),
    Wanted("preemptions", ("vllm:num_preemptions_total", "ray_vllm:num_preemptions_total")),
    Wanted("generation_tokens", ("vllm:generation_tokens_total", "ray_vllm:generation_tokens_total")),
    Wanted("prefix_queries", ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")),
)
TOKEN_GAP = tuple(
    prefix + name
    for prefix in ("vllm:", "ray_vllm:")
    for name in ("inter_token_latency_seconds", "time_per_output_token_seconds")
)
READER = Reader(SCALARS, (Wanted("ttft", ("vllm:time_to_first_token_seconds",)), Wanted("inter_token", TOKEN_GAP)))

# file -> what a careful person reads in it
RECORDED: dict[str, dict[str, float | None]] = {
    "vllm-0.32.0-cpu.txt": {
        "running": 3, "waiting": 0, "kv_usage": 0.008264462809917328, "preemptions": 0, "generation_tokens": 351,
        "prefix_queries": 49,
    },
    "vllm-0.4.3.txt": {
        "running": 0, "waiting": 0, "kv_usage": 0, "preemptions": 0, "generation_tokens": 7, "prefix_queries": None,
    },
    "vllm-0.10.0.EXCERPT.txt": {
        "running": None, "waiting": None, "kv_usage": 9.75010481363281e-06, "preemptions": None,
        "generation_tokens": None, "prefix_queries": 32,
    },
    "vllm-v1-2025-03.EXCERPT.txt": {
        "running": 0, "waiting": 0, "kv_usage": 0, "preemptions": None, "generation_tokens": None,
        "prefix_queries": None,
    },
    "vllm-v0-2024-10-no-samples.EXCERPT.txt": {
        "running": None, "waiting": None, "kv_usage": None, "preemptions": None, "generation_tokens": None,
        "prefix_queries": None,
    },
    "ray-vllm-v0-2024-12.PARTIAL.txt": {
        "running": 0, "waiting": 0, "kv_usage": 5.882698982295764e-05, "preemptions": None,
        "generation_tokens": 300, "prefix_queries": None,
    },
    "datadog-newer-families-ASSEMBLED.txt": {
        "running": None, "waiting": None, "kv_usage": 0, "preemptions": None, "generation_tokens": None,
        "prefix_queries": 117,
    },
    "vllm-docs-usage-metrics.EXCERPT.txt": {
        "running": None, "waiting": None, "kv_usage": None, "preemptions": None, "generation_tokens": None,
        "prefix_queries": None,
    },
}  # fmt: skip


def recorded(shared_data: Path, name: str) -> bytes:
    return (shared_data / "metrics" / name).read_bytes()


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_scrape_reads_as_a_person_reads_it(shared_data: Path, name: str) -> None:
    assert dict(READER.read(recorded(shared_data, name)).values) == RECORDED[name]


def test_every_recording_is_covered(shared_data: Path) -> None:
    assert {path.name for path in (shared_data / "metrics").glob("*.txt")} == set(RECORDED)


def test_the_buckets_of_a_real_scrape(shared_data: Path) -> None:
    buckets = READER.read(recorded(shared_data, "vllm-0.32.0-cpu.txt")).histograms
    ttft = dict(buckets["ttft"])
    assert [ttft[0.04], ttft[math.inf], len(ttft), len(buckets["inter_token"])] == [7, 8, 23, 20]


def test_the_old_spelling_of_the_token_gap_under_ray(shared_data: Path) -> None:
    buckets = dict(READER.read(recorded(shared_data, "ray-vllm-v0-2024-12.PARTIAL.txt")).histograms["inter_token"])
    assert (buckets[0.05], buckets[0.15]) == (4, 299)


def test_data_parallel_engines_are_added_up_and_their_kv_use_averaged() -> None:
    text = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 2.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.1",model_name="m"} 5.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf",model_name="m"} 5.0
"""
    reading = READER.read(text)
    assert (reading.values["running"], reading.values["kv_usage"]) == (7, 0.5)
    assert reading.histograms["ttft"] == ((0.1, 6), (math.inf, 7))


def test_a_longer_name_with_the_same_beginning_is_another_series() -> None:
    text = b'vllm:num_requests_waiting_by_reason{reason="capacity"} 9.0\n# x\nvllm:num_requests_waiting{a="b"} 2.0\n'
    assert READER.read(text).values["waiting"] == 2


def test_a_text_may_begin_with_a_sample_and_have_neither_labels_nor_a_final_line_break() -> None:
    assert READER.read(b"vllm:num_requests_running 2").values["running"] == 2


def test_braces_and_spaces_in_labels_and_a_time_stamp_do_no_harm() -> None:
    text = b'vllm:num_requests_running{model_name="a } b {c} 7 \\" x"} 2.0 1731999999000\n'
    assert READER.read(text).values["running"] == 2


@pytest.mark.parametrize("value", ["NaN", "nan", "rubbish"])
def test_what_is_no_number_is_no_value(value: str) -> None:
    reading = READER.read(f"vllm:num_requests_running {value}\n".encode())
    assert reading.values["running"] is None
    assert reading.missing(("running", "waiting")) == ["running", "waiting"]


def test_the_size_of_the_cache_stands_in_the_labels_of_an_info_series(shared_data: Path) -> None:
    labels = metrics_text.labels_of(recorded(shared_data, "vllm-0.32.0-cpu.txt"), ("vllm:cache_config_info",))
    assert (labels["kv_cache_size_tokens"], labels["block_size"]) == ("46592", "128")


def test_percentiles_of_cumulative_buckets() -> None:
    buckets = [(0.1, 0.0), (0.25, 50.0), (0.5, 100.0), (math.inf, 100.0)]
    assert metrics_text.percentile_of_buckets(buckets, 0.5) == 0.25
    assert metrics_text.percentile_of_buckets(buckets, 0.95) == pytest.approx(0.475)
    assert metrics_text.percentile_of_buckets([(0.1, 0.0), (math.inf, 3.0)], 0.5) == 0.1
    assert metrics_text.percentile_of_buckets([(0.1, 0.0), (math.inf, 0.0)], 0.5) is None
