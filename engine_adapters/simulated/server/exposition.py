"""The simulated engine's /metrics: vLLM's names and bucket bounds in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left

from controlplane.domain.simulated_engine import SimulatedEngine

# bounds as vLLM 0.32 has them
FIRST_TOKEN_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
                 40.0, 80.0, 160.0, 640.0, 2560.0)  # fmt: skip
TOKEN_GAP_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
               80.0)  # fmt: skip
REQUEST_S = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
             960.0, 1920.0, 7680.0)  # fmt: skip


class Histogram:
    """Counts by bucket; the last one is everything above the highest bound."""

    __slots__ = ("bounds", "counts", "sum_s")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_s += seconds

    def lines(self, name: str, model: str) -> list[str]:
        labels = f'engine="0",model_name="{model}"'
        total, found = 0, [f"# TYPE {name} histogram"]
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{engine="0",le="{bound}",model_name="{model}"}} {float(total)}')
        return [*found, f"{name}_count{{{labels}}} {float(total)}", f"{name}_sum{{{labels}}} {self.sum_s}"]


class Recorder:
    """The latencies of one replica since its start."""

    __slots__ = ("first_token", "queued", "stopped", "token_gap", "whole")

    def __init__(self) -> None:
        self.first_token = Histogram(FIRST_TOKEN_S)
        self.token_gap = Histogram(TOKEN_GAP_S)
        self.whole = Histogram(REQUEST_S)
        self.queued = Histogram(REQUEST_S)
        self.stopped = 0  # requests that ended by themselves, not by their limit


def render(engine: SimulatedEngine, recorder: Recorder, model: str) -> str:
    """Returns the whole answer of /metrics."""
    model = _escaped(model)
    labels = f'engine="0",model_name="{model}"'
    counters, profile = engine.counters, engine.profile
    lines: list[str] = []
    for name, value in (
        ("num_requests_running", engine.running),
        ("num_requests_waiting", engine.waiting),
        ("kv_cache_usage_perc", engine.kv_usage),
    ):
        lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{labels}}} {float(value)}"]
    for name, value in (
        ("prefix_cache_queries_total", 0),
        ("prefix_cache_hits_total", 0),
        ("num_preemptions_total", counters.preemptions),
        ("prompt_tokens_total", counters.prompt_tokens),
        ("generation_tokens_total", counters.generation_tokens),
    ):
        lines += [f"# TYPE vllm:{name} counter", f"vllm:{name}{{{labels}}} {float(value)}"]
    lines.append("# TYPE vllm:request_success_total counter")
    reasons = {"stop": recorder.stopped, "length": counters.finished - recorder.stopped, "abort": counters.aborted}
    for reason, count in reasons.items():
        lines.append(
            f'vllm:request_success_total{{engine="0",finished_reason="{reason}",model_name="{model}"}} {float(count)}'
        )
    lines += recorder.first_token.lines("vllm:time_to_first_token_seconds", model)
    lines += recorder.token_gap.lines("vllm:inter_token_latency_seconds", model)
    lines += recorder.whole.lines("vllm:e2e_request_latency_seconds", model)
    lines += recorder.queued.lines("vllm:request_queue_time_seconds", model)
    cache = (
        f'block_size="{profile.block_size}",cache_dtype="auto",enable_prefix_caching="False",engine="0",'
        f'kv_cache_memory_bytes="{int(profile.kv_blocks * profile.block_size * profile.kv_bytes_per_token)}",'
        f'kv_cache_size_tokens="{profile.kv_blocks * profile.block_size}",num_gpu_blocks="{profile.kv_blocks}"'
    )
    lines += ["# TYPE vllm:cache_config_info gauge", f"vllm:cache_config_info{{{cache}}} 1.0"]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
