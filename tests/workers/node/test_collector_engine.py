from __future__ import annotations

from collections.abc import Mapping

import pytest

from controlplane.domain.observed import AcceleratorObserved
from controlplane.domain.samples import SamplePart
from engine_adapters.vllm.metrics import metric_names
from workers.node.collector_engine import EngineWatch, rate
from workers.node.collector_parts import NodeSeen, ReplicaSeen, RollupClock, parts_of


def scrape(ttft: tuple[int, int] = (0, 0), **values: object) -> bytes:
    defaults: dict[str, object] = {
        "num_requests_running": 1, "num_requests_waiting": 0, "kv_cache_usage_perc": 0.5, "num_preemptions_total": 0,
        "generation_tokens_total": 0, "prompt_tokens_total": 0,
    }  # fmt: skip
    lines = [f'vllm:{name}{{engine="0"}} {value}' for name, value in {**defaults, **values}.items() if value != ""]
    lines += [
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.1"}} {ttft[0]}',
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf"}} {ttft[1]}',
    ]
    return "\n".join(lines).encode()


def watch() -> EngineWatch:
    return EngineWatch(metric_names("0.32.0"))


def test_counters_become_rates_from_the_second_scrape_on() -> None:
    engine = watch()
    assert "tokens_per_s" not in engine.observe(scrape(generation_tokens_total=100), 10.0).values
    second = engine.observe(scrape(generation_tokens_total=150, num_preemptions_total=1), 12.0).values
    assert (second["tokens_per_s"], second["preemptions"]) == (25.0, 0.5)


def test_a_counter_that_began_anew_gives_no_negative_rate() -> None:
    engine = watch()
    engine.observe(scrape(generation_tokens_total=100), 10.0)
    assert engine.observe(scrape(generation_tokens_total=5), 11.0).values["tokens_per_s"] is None
    assert engine.observe(scrape(generation_tokens_total=8), 12.0).values["tokens_per_s"] == 3.0


def test_a_required_series_that_is_missing_is_said_and_is_not_zero() -> None:
    found = watch().observe(scrape(kv_cache_usage_perc="", num_requests_running="NaN"), 0.0)
    assert (found.values["kv_usage"], found.values["running"], found.values["batch_size"]) == (None, None, None)
    assert found.problems == ("missing_series:running", "missing_series:kv_usage")


def test_the_cache_in_use_is_known_in_tokens_where_its_size_is() -> None:
    text = scrape() + b'\nvllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0\n'
    assert watch().observe(text, 0.0).values["kv_tokens_reserved"] == 800


def test_percentiles_of_the_engine_are_those_of_the_last_minute() -> None:
    engine = watch()
    engine.observe(scrape(ttft=(0, 100)), 0.0)
    for second in range(1, 130):
        engine.observe(scrape(ttft=(second, 100 + second)), float(second))
    values = engine.observe(scrape(ttft=(130, 230)), 130.0).values
    assert values["engine_ttft_p95"] is not None and values["engine_ttft_p95"] <= 0.1
    assert values["engine_itl_p50"] is None


@pytest.mark.parametrize("value", [-1.0, 1.5])
def test_a_share_outside_its_range_is_none(value: float) -> None:
    assert watch().observe(scrape(kv_cache_usage_perc=value), 0.0).values["kv_usage"] is None


def test_no_rate_without_time() -> None:
    assert rate(1.0, 2.0, 0.0) is None


def test_the_prefix_hit_rate_is_that_of_the_last_minute() -> None:
    engine = watch()
    engine.observe(scrape(prefix_cache_queries_total=100, prefix_cache_hits_total=100), 0.0)
    values = engine.observe(scrape(prefix_cache_queries_total=200, prefix_cache_hits_total=125), 10.0).values
    assert values["prefix_hit_rate"] == 0.25


def seen_replica(replica_id: str, values: Mapping[str, float | None], *problems: str) -> ReplicaSeen:
    return ReplicaSeen(replica_id, "chat", values, problems)


def make_card(uuid: str, used: int) -> AcceleratorObserved:
    return AcceleratorObserved(uuid, 0, "gpu", "H100", uuid, 80, used, 80 - used, utilization=0.5)


def test_a_nodes_parts_are_its_replicas_its_share_of_each_deployment_and_itself() -> None:
    seen = NodeSeen("n1", 5.0, accelerators=[make_card("a", 10), make_card("b", 20)])
    seen.replicas = [
        seen_replica("r1", {"running": 2, "kv_usage": 0.2, "gpu_memory_used_bytes": 10, "engine_ttft_p50": 1.0}),
        seen_replica("r2", {"kv_usage": None, "gpu_memory_used_bytes": 10}, "no_answer"),
    ]
    parts = {part.subject: part for part in parts_of(seen)}
    assert set(parts) == {"replica:r1", "replica:r2", "deployment:chat", "node:n1"}
    assert parts["deployment:chat"].values == {"running": 2, "kv_usage": 0.2, "gpu_memory_used_bytes": 20}
    assert (parts["deployment:chat"].weight, parts["deployment:chat"].problems) == (2, ("no_answer",))
    node = parts["node:n1"].values
    assert (node["running"], node["gpu_memory_used_bytes"], node["gpu_utilization"]) == (2, 30, 0.5)


def test_a_slot_is_rolled_up_when_the_next_begins() -> None:
    clock = RollupClock()
    part = SamplePart("node:n1", "collector:n1", 0.0, {"running": 3.0})
    assert clock.add([part], 11.0) == []
    assert clock.add([SamplePart("node:n1", "collector:n1", 0.0, {"running": 5.0})], 19.9) == []
    [rollup] = clock.add([part], 20.1)
    assert (rollup.start_s, rollup.gauges) == (10, {"running": (4.0, 5.0)})
    [last] = clock.finish()
    assert (last.start_s, last.gauges) == (20, {"running": (3.0, 3.0)})
