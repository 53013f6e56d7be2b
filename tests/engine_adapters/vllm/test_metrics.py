from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from controlplane.lib.metrics_text import Reader, Wanted, labels_of
from engine_adapters.vllm.metrics import metric_names, parse_version

# file -> version, and what a reader that uses the names finds: role -> value, None = unknown
RECORDED: dict[str, tuple[str, dict[str, float | None]]] = {
    "vllm-0.32.0-cpu.txt": ("0.32.0", {"running": 3.0, "waiting": 0.0, "kv_usage": 0.008264462809917328,
                                       "preemptions": 0.0, "prefix_queries": 49.0, "prefix_hits": 0.0}),
    "vllm-0.4.3.txt": ("0.4.3", {"running": 0.0, "waiting": 0.0, "kv_usage": 0.0, "preemptions": 0.0,
                                 "prefix_queries": None}),
    "vllm-0.10.0.EXCERPT.txt": ("0.10.0", {"kv_usage": 9.75010481363281e-06, "prefix_queries": 32.0,
                                           "prefix_hits": 0.0, "running": None}),
    "vllm-v1-2025-03.EXCERPT.txt": ("0.8.1", {"running": 0.0, "waiting": 0.0, "kv_usage": 0.0,
                                              "prefix_queries": None}),
    "vllm-v0-2024-10-no-samples.EXCERPT.txt": ("0.5.4", {"running": None, "waiting": None, "kv_usage": None,
                                                         "preemptions": None}),
    "ray-vllm-v0-2024-12.PARTIAL.txt": ("0.6.4", {"running": 0.0, "waiting": 0.0, "kv_usage": 5.882698982295764e-05}),
    "datadog-newer-families-ASSEMBLED.txt": ("0.11.0", {"kv_usage": 0.0, "prefix_queries": 117.0,
                                                        "prefix_hits": 64.0}),
    "vllm-docs-usage-metrics.EXCERPT.txt": ("0.9.0", {"running": None}),
}  # fmt: skip

ROLES = ("running", "waiting", "kv_usage", "preemptions", "prefix_queries", "prefix_hits", "generation_tokens")


def values_of(text: bytes, version: str | None) -> dict[str, float | None]:
    names = asdict(metric_names(version))
    reader = Reader([Wanted(role, names[role], "mean" if role == "kv_usage" else "sum") for role in ROLES])
    return dict(reader.read(text).values)


@pytest.mark.parametrize("file", RECORDED)
@pytest.mark.parametrize("known", [True, False], ids=["version known", "version unknown"])
def test_the_names_find_what_a_recorded_engine_said(shared_data: Path, file: str, known: bool) -> None:
    version, expected = RECORDED[file]
    values = values_of((shared_data / "metrics" / file).read_bytes(), version if known else None)
    assert {role: values[role] for role in expected} == pytest.approx(expected)


def test_every_recording_is_looked_at(shared_data: Path) -> None:
    assert {path.name for path in (shared_data / "metrics").glob("*.txt")} == set(RECORDED)


@pytest.mark.parametrize(
    ("file", "version", "role", "count"),
    [
        ("vllm-0.32.0-cpu.txt", "0.32.0", "ttft", 8.0),
        ("vllm-0.32.0-cpu.txt", "0.32.0", "inter_token", None),
        ("vllm-0.4.3.txt", "0.4.3", "inter_token", None),
        ("vllm-0.4.3.txt", "0.4.3", "ttft", 1.0),
        ("datadog-newer-families-ASSEMBLED.txt", None, "inter_token", 144.0),
        ("ray-vllm-v0-2024-12.PARTIAL.txt", "0.6.4", "inter_token", None),
    ],
)
def test_latency_histograms_are_found_under_their_name_of_the_time(
    shared_data: Path, file: str, version: str | None, role: str, count: float | None
) -> None:
    reader = Reader((), [Wanted(role, asdict(metric_names(version))[role])])
    buckets = reader.read((shared_data / "metrics" / file).read_bytes()).histograms[role]
    assert len(buckets) > 1
    if count is not None:
        assert buckets[-1][1] == count


def test_the_cache_s_configuration_is_found(shared_data: Path) -> None:
    text = (shared_data / "metrics" / "vllm-0.32.0-cpu.txt").read_bytes()
    labels = labels_of(text, metric_names("0.32.0").cache_config)
    assert (labels["block_size"], labels["kv_cache_size_tokens"]) == ("128", "46592")


def test_renamed_metrics_have_one_name_except_while_both_were_written() -> None:
    def kv(version: str | None) -> list[str]:
        return [name for name in metric_names(version).kv_usage if name.startswith("vllm:")]

    assert kv("0.9.2") == ["vllm:gpu_cache_usage_perc"]
    assert kv("0.10.0") == ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]
    assert kv("0.12.0") == ["vllm:kv_cache_usage_perc"]
    assert kv(None) == ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]


def test_the_old_name_of_the_token_gap_is_the_only_one_before_0_10_2() -> None:
    old = tuple(name for name in metric_names("0.10.1").inter_token if name.startswith("vllm:"))
    assert old == ("vllm:time_per_output_token_seconds",)
    assert metric_names("0.10.2").inter_token[0] == "vllm:inter_token_latency_seconds"


@pytest.mark.parametrize(
    ("text", "version"),
    [("0.32.0", (0, 32, 0)), ("v0.15.2rc1.dev93", (0, 15, 2)), ("0.9", (0, 9, 0)), ("nightly", None), (None, None)],
)
def test_versions_are_read_as_far_as_they_are_numbers(text: str | None, version: tuple[int, ...] | None) -> None:
    assert parse_version(text) == version
