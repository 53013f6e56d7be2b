"""The desired-state document of one node: what the controller writes and the node worker's supervisor carries out.

The controller is the only writer, the node worker the only reader. The document is whole (level-triggered): a replica
that is missing from it and runs on the node is stopped. `version` grows with every change of content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.domain.lifecycle import Goal, Limits

DESIRED_SCHEMA = 1

SettingValue = str | int | float | bool | None


def attention_copies(settings: Mapping[str, SettingValue]) -> int:
    """Groups of ranks that each take their own requests through attention (data-parallel attention); usually 1."""
    found = settings.get("data_parallel_size")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 1 else 1


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Everything of a revision that the engine's command line depends on.

    `settings` has the engine's own setting names (for vLLM `max_model_len`, `max_num_seqs`, …; see
    `engine_adapters.<engine>.settings`), already validated. `model_path` is a folder on the node or a model name that
    the engine resolves itself.
    """

    engine: str  # vllm | simulated | external
    model_path: str
    served_model_name: str
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    build: str = "cpu"  # cpu | cuda: which build of the engine the accelerators need


@dataclass(frozen=True, slots=True)
class AssignedAccelerator:
    """One accelerator that this replica was given. `address` is what the engine is told: a CUDA uuid or index, or for
    a group of CPU cores its core list such as `0-3`."""

    uuid: str
    kind: str  # gpu | cpu | simulated
    address: str
    name: str = ""
    memory_bytes: int = 0
    bandwidth_bytes_per_s: float | None = None
    reserved_bytes: int = 0  # of its memory, for this replica; 0 = the whole accelerator


@dataclass(frozen=True, slots=True)
class ReplicaDesired:
    """One replica as the node shall run it. `key` is the secret that guards the engine's own port."""

    replica_id: str
    deployment_id: str
    deployment: str
    revision: int
    revision_hash: str
    goal: Goal
    spec: EngineSpec
    accelerators: tuple[AssignedAccelerator, ...]
    key: str
    drain_timeout_s: float = 60.0
    limits: Limits = field(default_factory=Limits)
    cause: str = ""


@dataclass(frozen=True, slots=True)
class NodeDesired:
    """The whole wish for one node. `machine` is the one whose reports count under the node's name; another machine
    that was given the same name by mistake leaves the document alone. Empty = whoever reads it.

    `models` is a question and no wish: `version` does not grow with it.
    """

    schema: int
    node: str
    version: int
    published_at: float
    replicas: tuple[ReplicaDesired, ...] = ()
    poll_s: float = 1.0
    machine: str = ""
    models: tuple[str, ...] = ()  # locations of model files of which it shall say whether they are there
