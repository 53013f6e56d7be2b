"""The simulated engine's metrics have vLLM's current names, so that every page and rule works on both."""

from __future__ import annotations

from engine_adapters.base import MetricNames
from engine_adapters.vllm import metrics as vllm_metrics

SPELLED_AS = "0.32.0"


def metric_names(version: str | None) -> MetricNames:
    """Returns the names of the vLLM version that is imitated."""
    return vllm_metrics.metric_names(SPELLED_AS)
