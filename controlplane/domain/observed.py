"""What a node worker reports: the accelerators it sees and the state of each replica it keeps.

A report is whole (level-triggered) and is repeated at least every `REPORT_EVERY_S`, so a lost message loses nothing.
A replica's transitions are repeated until the controller's desired document shows that it dropped the replica; the
controller takes those whose `seq` it has not seen (compare-and-set on `Replica.observed_seq`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.domain.lifecycle import Goal, State, Transition
from controlplane.domain.model_files import ModelFilesLook
from controlplane.domain.topology import Topology

REPORT_SCHEMA = 1
REPORT_EVERY_S = 2.0
NODE_LOST_AFTER_S = 15.0

# of an engine's info series about its KV cache, what a report carries (vLLM's names)
CACHE_LABELS = (
    "block_size",
    "cache_dtype",
    "gpu_memory_utilization",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "num_gpu_blocks",
)


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """A process on an accelerator that Headworks did not start."""

    pid: int
    name: str
    used_bytes: int | None


@dataclass(frozen=True, slots=True)
class ReplicaUse:
    """What all processes of one replica use of an accelerator, as the driver lists them."""

    replica_id: str
    used_bytes: int


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A MIG slice of a card; memory in bytes; uuid None when the driver does not tell it."""

    index: int
    gpu_instance: int | None
    compute_instance: int | None
    uuid: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None


@dataclass(frozen=True, slots=True)
class AcceleratorObserved:
    """One card or group of CPU cores. None = the hardware or driver does not say."""

    uuid: str
    index: int
    kind: str  # gpu | cpu | simulated
    name: str
    address: str  # what an engine is told: CUDA uuid, or a core list such as "0-3"
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    utilization: float | None = None  # 0..1
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    mig_enabled: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    foreign_processes: tuple[ForeignProcess, ...] = ()
    replica_use: tuple[ReplicaUse, ...] = ()  # only of replicas of whose processes the driver tells the use
    numa_node: int | None = None
    uncorrected_errors: int | None = None  # of its memory since the last reset, that ECC found and could not correct
    remap_pending: bool | None = None  # a reset is due that replaces defective rows or pages
    remap_failed: bool | None = None  # defective rows could not be replaced
    bandwidth_bytes_per_s: float | None = None  # known for simulated cards; no driver tells it


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the engine itself logged or answered once it was up; None = not seen."""

    engine_version: str | None = None
    weights_bytes: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_tokens: int | None = None
    kv_block_size_tokens: int | None = None
    max_concurrency: float | None = None
    start_s: float | None = None  # from launch to the first successful generation
    cache_config: Mapping[str, str] = field(default_factory=dict)  # of its metrics: `CACHE_LABELS`


@dataclass(frozen=True, slots=True)
class ReplicaObserved:
    """One replica as its node sees it. `process_started_at` with `pid` identifies the engine over restarts."""

    replica_id: str
    state: State
    since: float
    goal: Goal
    seq: int
    attempt: int
    retry_at: float | None
    pid: int | None
    process_started_at: float | None
    url: str | None  # where the gateway reaches it, e.g. http://127.0.0.1:41234
    log_path: str | None
    command: tuple[str, ...] = ()  # the argument list, without secrets
    in_flight: int | None = None
    facts: EngineFacts = field(default_factory=EngineFacts)
    transitions: tuple[Transition, ...] = ()
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The whole report of one node. `incarnation` changes at each start of the worker; `sequence` grows within it.

    `machine` tells two machines of one name apart, `starts` which of two workers of one machine is the later one.
    """

    schema: int
    node: str
    incarnation: str
    sequence: int
    reported_at: float
    address: str
    worker_pid: int
    desired_version: int  # the version of the desired document that was last carried out, 0 = none yet
    accelerators: tuple[AcceleratorObserved, ...]
    replicas: tuple[ReplicaObserved, ...]
    engines: Mapping[str, str | None] = field(default_factory=dict)  # engine -> version found, None = not installed
    cpu_count: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    simulated: bool = False
    topology: Topology | None = None  # how the cards are wired, in the order of their index
    machine: str = ""
    starts: int = 0
    model_files: ModelFilesLook | None = None  # None = it has not looked (yet), or does not know how to
