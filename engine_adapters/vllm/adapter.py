"""vLLM, GPU and CPU builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.domain.desired import EngineSpec, SettingValue
from controlplane.domain.observed import EngineFacts
from engine_adapters.base import Command, LaunchPlace, MetricNames, SettingField, SettingProblem, WarmUpRequest
from engine_adapters.vllm import argv, logs, metrics, settings


class VllmAdapter:
    """Starts vLLM in the node's engine environment, behind Headworks' own guard."""

    name = "vllm"
    managed = True
    simulated = False
    health_path = "/health"

    def fields(self) -> Sequence[SettingField]:
        return settings.FIELDS

    def validate(self, given: Mapping[str, SettingValue]) -> list[SettingProblem]:
        return settings.validate(given)

    def command(self, spec: EngineSpec, place: LaunchPlace) -> Command:
        return argv.command(spec, place)

    def warm_up(self, spec: EngineSpec) -> WarmUpRequest:
        # /v1/completions needs no chat template, and ignore_eos makes sure that something is generated
        body = {"model": spec.served_model_name, "prompt": "Hello", "max_tokens": 2, "ignore_eos": True}
        return WarmUpRequest("/v1/completions", body)

    def metric_names(self, version: str | None) -> MetricNames:
        return metrics.metric_names(version)

    def read_facts(self, log_lines: Sequence[str]) -> EngineFacts:
        return logs.read_facts(log_lines)

    def explain_exit(self, log_lines: Sequence[str], exit_text: str) -> tuple[str, str, str]:
        return logs.explain_exit(log_lines, exit_text)
