"""The words of a replica's life: its states and which may follow which, the limits, and what a change tells.

The machine that moves by them is `replica_machine`; its events and instructions are in `lifecycle_events`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["pending", "placed", "starting", "warming", "ready", "draining", "stopped", "failed"]
Goal = Literal["run", "stop"]

STATES: tuple[State, ...] = ("pending", "placed", "starting", "warming", "ready", "draining", "stopped", "failed")
LIVE_STATES: frozenset[State] = frozenset({"starting", "warming", "ready", "draining"})

# state -> states that may follow it
TRANSITIONS: Mapping[State, frozenset[State]] = {
    "pending": frozenset({"placed", "failed", "stopped"}),
    "placed": frozenset({"starting", "failed", "stopped"}),
    "starting": frozenset({"warming", "draining", "failed"}),
    "warming": frozenset({"ready", "draining", "failed"}),
    "ready": frozenset({"draining", "failed"}),
    "draining": frozenset({"stopped", "failed"}),
    "failed": frozenset({"placed", "draining", "stopped"}),
    "stopped": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits and back-off of one replica, all in seconds."""

    start_timeout_s: float = 900.0
    warmup_timeout_s: float = 120.0
    drain_settle_s: float = 1.5  # the routing snapshot needs this long to reach every gateway
    drain_timeout_s: float = 60.0
    term_grace_s: float = 15.0
    kill_grace_s: float = 10.0
    backoff_base_s: float = 1.0
    backoff_cap_s: float = 300.0
    backoff_reset_after_s: float = 600.0
    health_lost_after_s: float = 60.0  # a ready engine that answers no health probe for so long has failed
    quiet_after_s: float = 30.0  # a ready engine whose counters rest for so long is asked for a small generation
    quiet_generation_s: float = 30.0  # how long that generation may take
    stalled_after_s: float = 85.0  # without any progress for so long, and two such generations without a token: failed


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a state was entered: a searchable code, one sentence, what to do, and the engine's last log lines."""

    code: str
    message: str
    hint: str = ""
    log_tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of state. `seq` grows by one per change of this replica and never repeats."""

    seq: int
    at: float
    from_state: State
    to_state: State
    reason: Reason
    cause: str = ""  # id of the event, request or decision that led here
