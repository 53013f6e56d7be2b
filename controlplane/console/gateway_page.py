"""What the live gateway page shows: the gateways, each deployment in a line, one of them whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.paginator import Paginator
from django.utils.translation import gettext as _

from controlplane.domain import gateway_sums
from controlplane.domain.gateway_state import (
    DeploymentState,
    Heard,
    LeaseState,
    RefusedState,
    TierState,
)
from controlplane.lib import valkey
from controlplane.traffic import live

ROWS = 50
_LEASES = 60
_QUOTAS = 20


@dataclass(frozen=True, slots=True)
class Line:
    """One deployment in the table. `condition` is a state's name and its word."""

    state: DeploymentState
    condition: str
    word: str


@dataclass(frozen=True, slots=True)
class TierLine:
    """A tier's queue with what was refused in it."""

    tier: TierState
    refused: int
    refused_per_s: float | None


@dataclass(frozen=True, slots=True)
class Process:
    """One gateway process as the table shows it."""

    heard: Heard
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """What one gateway holds of one limit."""

    gateway: str
    lease: LeaseState

    @property
    def held(self) -> int:
        return max(0, self.lease.stock) + self.lease.reserved


def of(chosen: str, page: str = "1") -> dict[str, Any]:
    """Returns the page's context. `chosen` is the deployment that is shown whole; "" = the first one."""
    try:
        heard = live.gateways()
    except valkey.ERRORS:
        return {"away": True, "chosen": chosen, "lines": Paginator([], ROWS).get_page(1)}
    told = gateway_sums.deployments(heard)
    lines = [Line(state, *condition(state)) for state in told.values()]
    shown = Paginator(lines, ROWS).get_page(page)
    name = chosen or (shown.object_list[0].state.name if lines else "")
    state = told.get(name)
    leases = _leases(heard)
    return {
        "away": False,
        "chosen": name,
        "lines": shown,
        "state": state,
        "tiers": _tiers(state) if state else [],
        "refused": sorted(state.refused, key=_by_rate) if state else [],
        "condition": condition(state) if state else None,
        "processes": [Process(one, datetime.fromtimestamp(one.state.started_at, UTC)) for one in heard],
        "silent": [one for one in heard if not one.is_fresh],
        "cut_off": [one for one in heard if one.is_fresh and one.state.cut_off_s is not None],
        "quotas_refused": gateway_sums.quotas_refused(heard)[:_QUOTAS],
        "leases": leases[:_LEASES],
        "leases_left_out": max(0, len(leases) - _LEASES) + sum(one.state.leases_left_out for one in heard),
    }


def condition(state: DeploymentState) -> tuple[str, str]:
    """Returns how a deployment is, as the name of a state and its word; the worst that is true."""
    ladder = state.ladder
    if ladder is not None and ladder.level:
        return "degraded", _("Degraded, step %(n)d of %(all)d") % {"n": ladder.level, "all": len(ladder.steps)}
    if not any(not one.leaving for one in state.replicas):
        return "off", _("No replica")
    if ladder is not None and (ladder.saturation or 0.0) >= 1.0:
        return "warning", _("Saturated")
    if state.requests_waiting:
        return "waiting", _("Queueing")
    return "ready", _("Serving")


def _tiers(state: DeploymentState) -> list[TierLine]:
    found = []
    for tier in state.tiers:
        refused = [one for one in state.refused if one.tier == tier.name]
        known = [one.per_s for one in refused if one.per_s is not None]
        nothing = None if tier.admitted_per_s is None else 0.0
        found.append(TierLine(tier, sum(one.requests for one in refused), sum(known) if known else nothing))
    return found


def _by_rate(one: RefusedState) -> tuple[float, int]:
    return -(one.per_s or 0.0), -one.requests


def _leases(heard: Sequence[Heard]) -> list[Lease]:
    found = [Lease(one.state.id, lease) for one in heard for lease in one.state.leases]
    return sorted(found, key=lambda one: (one.lease.tenant, one.lease.quota, one.lease.measure, one.gateway))
