"""An existing OpenAI-compatible endpoint: routed, metered and shown, never started or stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.domain.desired import EngineSpec, SettingValue
from controlplane.domain.observed import EngineFacts
from engine_adapters.base import Command, LaunchPlace, MetricNames, SettingField, SettingProblem, WarmUpRequest
from engine_adapters.external import argv, logs, metrics, settings


class ExternalAdapter:
    """Knows how to talk to the endpoint and nothing of how it runs."""

    name = "external"
    managed = False
    simulated = False
    health_path = "/v1/models"

    def fields(self) -> Sequence[SettingField]:
        return settings.FIELDS

    def validate(self, given: Mapping[str, SettingValue]) -> list[SettingProblem]:
        return settings.validate(given)

    def command(self, spec: EngineSpec, place: LaunchPlace) -> Command:
        return argv.command(spec, place)

    def warm_up(self, spec: EngineSpec) -> WarmUpRequest:
        # chat is what every endpoint has; plain completions are missing from many
        message = {"role": "user", "content": "Hello"}
        body = {"model": spec.served_model_name, "messages": [message], "max_tokens": 2}
        return WarmUpRequest("/v1/chat/completions", body)

    def metric_names(self, version: str | None) -> MetricNames:
        return metrics.metric_names(version)

    def read_facts(self, log_lines: Sequence[str]) -> EngineFacts:
        return logs.read_facts(log_lines)

    def explain_exit(self, log_lines: Sequence[str], exit_text: str) -> tuple[str, str, str]:
        return logs.explain_exit(log_lines, exit_text)
