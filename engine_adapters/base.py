"""What an engine adapter is. One folder an engine with the same files; everything here is pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controlplane.domain.desired import AssignedAccelerator, EngineSpec, SettingValue
from controlplane.domain.observed import EngineFacts

REPLICA_KEY_ENV = "HEADWORKS_REPLICA_KEY"  # how an engine gets the secret that guards its port


@dataclass(frozen=True, slots=True)
class LaunchPlace:
    """Where one replica is started: what the node adds to the spec."""

    replica_id: str
    host: str
    port: int
    key: str
    accelerators: tuple[AssignedAccelerator, ...]
    engine_python: str  # interpreter of the engine's environment, "" when there is none
    code_root: str  # folder that holds the package engine_adapters, for PYTHONPATH
    work_dir: str  # private folder of the replica
    engine_version: str = ""  # of the engine's environment, "" when it is not known


@dataclass(frozen=True, slots=True)
class Command:
    """How to start the process. Secrets stand in `env` only; `argv` is shown on pages and in logs.

    `env` is not the whole environment: the process gets `environment.process_environment(os.environ, command)`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting an operator may give, for forms, validation and documents."""

    name: str
    kind: str  # int | float | bool | choice | text
    label: str
    help: str
    default: SettingValue = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """A setting that can't be used: which, and one sentence that says what would be right."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The engine's own metric names of one engine version, in order of preference (first one found wins)."""

    running: tuple[str, ...]
    waiting: tuple[str, ...]
    kv_usage: tuple[str, ...]
    preemptions: tuple[str, ...]
    prompt_tokens: tuple[str, ...]
    generation_tokens: tuple[str, ...]
    ttft: tuple[str, ...] = ()
    inter_token: tuple[str, ...] = ()
    e2e: tuple[str, ...] = ()
    prefix_hits: tuple[str, ...] = ()
    prefix_queries: tuple[str, ...] = ()
    cache_config: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()  # counter of the engine's steps: it moves during a long prefill too


@dataclass(frozen=True, slots=True)
class WarmUpRequest:
    """A small real generation: POST `path` with `body`; success is a 200 whose answer has generated tokens."""

    path: str
    body: Mapping[str, object]


class EngineAdapter(Protocol):
    """One engine. `managed` = Headworks starts and stops it; `simulated` = labelled so wherever it is shown."""

    name: str
    managed: bool
    simulated: bool
    health_path: str

    def fields(self) -> Sequence[SettingField]:
        """Returns the settings an operator may give."""

    def validate(self, settings: Mapping[str, SettingValue]) -> list[SettingProblem]:
        """Returns what is wrong with the settings; an empty list when they can be used."""

    def command(self, spec: EngineSpec, place: LaunchPlace) -> Command:
        """Returns how to start a replica; a pure function of its arguments."""

    def warm_up(self, spec: EngineSpec) -> WarmUpRequest:
        """Returns the generation that has to succeed before a replica is ready."""

    def metric_names(self, version: str | None) -> MetricNames:
        """Returns the metric names of an engine version (None = unknown, then every known spelling)."""

    def read_facts(self, log_lines: Sequence[str]) -> EngineFacts:
        """Returns what the engine's start-up log tells about memory and version."""

    def explain_exit(self, log_lines: Sequence[str], exit_text: str) -> tuple[str, str, str]:
        """Returns (code, sentence, hint) for an engine that ended, from its last log lines."""
