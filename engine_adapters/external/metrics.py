"""An external endpoint shows no metrics that Headworks could rely on; the gateway's own are all there is."""

from __future__ import annotations

from engine_adapters.base import MetricNames


def metric_names(version: str | None) -> MetricNames:
    """Returns no names."""
    return MetricNames(running=(), waiting=(), kv_usage=(), preemptions=(), prompt_tokens=(), generation_tokens=())
