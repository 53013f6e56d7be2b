"""The adapter of the tiny engine, registered under the name `tiny` where a test or the test's worker asks for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from controlplane.domain.desired import EngineSpec, SettingValue
from controlplane.domain.observed import EngineFacts
from engine_adapters import registry
from engine_adapters.base import (
    REPLICA_KEY_ENV,
    Command,
    EngineAdapter,
    LaunchPlace,
    MetricNames,
    SettingField,
    SettingProblem,
    WarmUpRequest,
)

SCRIPT = Path(__file__).with_name("tiny_engine.py")


class TinyAdapter:
    """Settings: dies_at_start, prints_key, dies_on_generation, fails_generation, hangs_on_generation, closes_port,
    ignores_term, spawns_child, spawns_daemon (true or absent),
    start_s (seconds until healthy), token_s (seconds a streamed token)."""

    name = "tiny"
    managed = True
    simulated = False
    health_path = "/health"

    def fields(self) -> Sequence[SettingField]:
        return ()

    def validate(self, settings: Mapping[str, SettingValue]) -> list[SettingProblem]:
        return []

    def command(self, spec: EngineSpec, place: LaunchPlace) -> Command:
        program = str(spec.settings.get("program", sys.executable))
        options = json.dumps({**spec.settings, "port": place.port, "version": place.engine_version})
        return Command((program, str(SCRIPT), options), {REPLICA_KEY_ENV: place.key})

    def warm_up(self, spec: EngineSpec) -> WarmUpRequest:
        return WarmUpRequest("/v1/completions", {"model": "tiny", "prompt": "Hello", "max_tokens": 2})

    def metric_names(self, version: str | None) -> MetricNames:
        running, waiting = ("vllm:num_requests_running",), ("vllm:num_requests_waiting",)
        return MetricNames(running, waiting, (), (), (), (), cache_config=("vllm:cache_config_info",))

    def read_facts(self, log_lines: Sequence[str]) -> EngineFacts:
        return EngineFacts(engine_version="1.0" if any("listens" in line for line in log_lines) else None)

    def explain_exit(self, log_lines: Sequence[str], exit_text: str) -> tuple[str, str, str]:
        errors = [line for line in log_lines if "Error" in line]
        return "engine_ended", f"The engine ended ({exit_text}). {' '.join(errors[-1:])}".strip(), "Read its log."


def get(name: str) -> EngineAdapter:
    """Returns the tiny engine, or a real adapter."""
    return TinyAdapter() if name == "tiny" else registry.get(name)
