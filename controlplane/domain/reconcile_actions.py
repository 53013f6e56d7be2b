"""What is done next about one deployment: the answers of `reconcile`, carried out by the controller."""

from __future__ import annotations

from dataclasses import dataclass, field

from controlplane.domain.placement import Placement
from controlplane.domain.rejections import Rejected


@dataclass(frozen=True, slots=True)
class Create:
    """A new replica of the current revision, in state pending."""

    why: str
    rule: str = "replicas"


@dataclass(frozen=True, slots=True)
class Place:
    """A pending replica gets these accelerators; they are reserved in the same transaction."""

    replica_id: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Wait:
    """The replica stays pending: no node can take it, or nothing may be changed now."""

    replica_id: str
    why: str
    code: str = "no_room"  # no_room | frozen
    rejected: tuple[Rejected, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Stop:
    """Sets the goal of a replica to stop. `drain_timeout_s` is how long its requests may still run."""

    replica_id: str
    drain_timeout_s: float
    rule: str  # scale | rollout | drain_first | asked
    why: str


@dataclass(frozen=True, slots=True)
class Drop:
    """A replica that never reached a node ends at once."""

    replica_id: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Something would be done but is not; only told."""

    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Remove:
    """The deployment can be removed: nothing of it lives."""


Action = Create | Place | Wait | Stop | Drop | Hold | Remove
