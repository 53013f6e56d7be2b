"""What goes into a `ReplicaMachine` (events that the supervisor saw) and what comes out (instructions for it).

`launch` in an event is the number that the instruction `Launch` of that process carried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from controlplane.domain.lifecycle import Goal, Reason

ASKED = Reason("asked", "Asked for by the control plane.")

# Events: what the supervisor saw.


@dataclass(frozen=True, slots=True)
class GoalSet:
    """The control plane wishes run or stop. `drain_timeout_s` is how long running requests may still take; None keeps
    what is set."""

    goal: Goal
    drain_timeout_s: float | None = None
    reason: Reason = ASKED
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Launched:
    """The process was started."""

    launch: int
    pid: int


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """There is no process, because of `reason`."""

    launch: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Healthy:
    """The health probe was answered with 200."""

    launch: int


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """The process lives and its health probe was not answered, or not with 200."""

    launch: int


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """One real generation gave `output_tokens` tokens within `took_s` seconds."""

    launch: int
    output_tokens: int
    took_s: float
    cache_config: Mapping[str, str] = field(default_factory=dict)  # what its metrics tell of its KV cache


@dataclass(frozen=True, slots=True)
class WarmUpFailed:
    """The engine lives and did not generate, because of `reason`."""

    launch: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Progressed:
    """What a ready engine's counters of tokens and steps add up to; None when it did not say."""

    launch: int
    count: float | None


@dataclass(frozen=True, slots=True)
class Generated:
    """The small generation of a quiet engine succeeded."""

    launch: int


@dataclass(frozen=True, slots=True)
class NotGenerated:
    """The small generation of a quiet engine failed or took too long; `text` says how."""

    launch: int
    text: str


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests running or waiting in the engine; None when the engine did not say."""

    launch: int
    requests: int | None


@dataclass(frozen=True, slots=True)
class Exited:
    """The engine's leader is dead (a zombie counts as dead); parts of its process group may live on."""

    launch: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class GroupGone:
    """Not one process of the engine's group is left."""

    launch: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; limits are looked at."""


ProcessEvent = (
    Launched
    | LaunchFailed
    | Healthy
    | Unhealthy
    | WarmedUp
    | WarmUpFailed
    | Progressed
    | Generated
    | NotGenerated
    | InFlight
    | Exited
    | GroupGone
)
Event = GoalSet | Tick | ProcessEvent


# Instructions: what the supervisor shall do.


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a process and answer Launched or LaunchFailed with the same `launch`, which never repeats."""

    launch: int
    attempt: int


@dataclass(frozen=True, slots=True)
class ProbeHealth:
    """Ask the health path once, and answer Healthy or Unhealthy."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Run one real generation against the engine, at most `timeout_s` long."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class CountProgress:
    """Read the engine's counters of tokens and steps, and answer Progressed."""


@dataclass(frozen=True, slots=True)
class TryGeneration:
    """Run one small generation, at most `timeout_s` long, and answer Generated or NotGenerated."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class CountInFlight:
    """Ask how many requests run or wait in the engine, and answer InFlight."""


@dataclass(frozen=True, slots=True)
class SignalGroup:
    """Send a signal to every process of the engine's group."""

    signal: Literal["TERM", "KILL"]


@dataclass(frozen=True, slots=True)
class ConfirmGone:
    """Look whether the whole process group is gone, and answer GroupGone when it is."""


Instruction = Launch | ProbeHealth | WarmUp | CountProgress | TryGeneration | CountInFlight | SignalGroup | ConfirmGone
