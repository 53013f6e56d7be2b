"""vLLM's metric names by version (sources: the recordings under tests and vLLM's own release notes).

What changed and when: `gpu_cache_usage_perc` became `kv_cache_usage_perc` and `gpu_prefix_cache_*` became
`prefix_cache_*` in 0.10 (both there until 0.12); `time_per_output_token_seconds` became
`inter_token_latency_seconds` in 0.10.2. Under Ray the prefix is `ray_vllm:`. A reader takes the first name that has
samples; a family that is only declared is unknown, not 0.
"""

from __future__ import annotations

import re
from functools import lru_cache

from engine_adapters.base import MetricNames

PREFIXES = ("vllm:", "ray_vllm:")

_BOTH_KV = ((0, 10), (0, 12))  # from, before: versions that may write old and new names side by side
_NEW_TOKEN_GAP = (0, 10, 2)
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(text: str | None) -> tuple[int, int, int] | None:
    """Returns (major, minor, patch) of texts such as `0.32.0` or `v0.15.2rc1.dev93`, None for anything else."""
    match = _VERSION.match(text or "")
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or 0)


def metric_names(version: str | None) -> MetricNames:
    """Returns the names of one version, every known spelling when the version is unknown. Newest name first."""
    return _names(parse_version(version))


@lru_cache(maxsize=16)
def _names(version: tuple[int, int, int] | None) -> MetricNames:
    kv: tuple[str, ...]
    cache: tuple[str, ...]
    if version is None or _BOTH_KV[0] <= version[:2] < _BOTH_KV[1]:
        kv, cache = ("kv_cache_usage_perc", "gpu_cache_usage_perc"), ("prefix_cache", "gpu_prefix_cache")
    elif version[:2] >= _BOTH_KV[1]:
        kv, cache = ("kv_cache_usage_perc",), ("prefix_cache",)
    else:
        kv, cache = ("gpu_cache_usage_perc",), ("gpu_prefix_cache",)
    # the old name of the token gap may be asked for in any later version, so it stays as the second choice
    gap: tuple[str, ...] = ("inter_token_latency_seconds", "time_per_output_token_seconds")
    if version is not None and version < _NEW_TOKEN_GAP:
        gap = ("time_per_output_token_seconds",)
    return MetricNames(
        running=_spelled("num_requests_running"),
        waiting=_spelled("num_requests_waiting"),
        kv_usage=_spelled(*kv),
        preemptions=_spelled("num_preemptions_total"),
        prompt_tokens=_spelled("prompt_tokens_total"),
        generation_tokens=_spelled("generation_tokens_total"),
        ttft=_spelled("time_to_first_token_seconds"),
        inter_token=_spelled(*gap),
        e2e=_spelled("e2e_request_latency_seconds"),
        prefix_hits=_spelled(*(f"{name}_hits_total" for name in cache)),
        prefix_queries=_spelled(*(f"{name}_queries_total" for name in cache)),
        cache_config=_spelled("cache_config_info"),
        steps=_spelled("iteration_tokens_total_count"),
    )


def _spelled(*names: str) -> tuple[str, ...]:
    return tuple(prefix + name for prefix in PREFIXES for name in names)
