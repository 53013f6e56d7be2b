"""What a deployment's documents say to admission: its rules, and between which bounds the seats of a replica move."""

from __future__ import annotations

import math
from dataclasses import replace

from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.seats import SeatLimits
from controlplane.domain.admission.tiers import STANDARD
from controlplane.domain.routing import RoutedDeployment, RoutedReplica

EXTERNAL = "external"
NO_LIMIT = 1_000_000
USUAL_MAX_NUM_SEQS = 256  # vLLM's default on most devices; where it is less, what waits in the engine tells
UNKNOWN_CEILING = 1024  # of an engine that tells nothing: what it shows decides
FLOOR_WITH_TARGET = 4  # where a token's time is promised, a slow machine may need to go below the usual floor
UNKNOWN_MEAN_TOKENS = 1024.0  # until requests have been counted


def policy_of(deployment: RoutedDeployment, base: Policy) -> Policy:
    """Returns the rules of a deployment: tiers and tenants' shares from its documents where they have any."""
    tiers = {tier.name: tier for tier in deployment.tiers} if deployment.tiers else base.tiers
    if STANDARD.name not in tiers:  # where a key of an unknown tier goes
        tiers = {**tiers, STANDARD.name: STANDARD}
    return replace(base, tiers=tiers, shares=deployment.shares or base.shares)


def limits_of(
    replica: RoutedReplica, deployment: RoutedDeployment, mean_tokens: float, knee: int | None = None
) -> SeatLimits:
    """Returns the bounds: up to the knee that was measured, and until there is one up to the ledger's ceiling. An
    endpoint that somebody else runs has its own queue and says itself when it is full."""
    if deployment.engine == EXTERNAL:
        return SeatLimits(NO_LIMIT, NO_LIMIT)
    if not tells(replica):
        return SeatLimits(min(16, knee or 16), knee or UNKNOWN_CEILING)
    most = replica.max_num_seqs or USUAL_MAX_NUM_SEQS
    mean = mean_tokens or UNKNOWN_MEAN_TOKENS
    kept = replica.sequence_kv
    limits = SeatLimits.of(
        knee=None,
        kv_tokens=replica.kv_capacity_tokens,
        mean_tokens=mean if kept is None else kept.held_tokens(math.ceil(mean)),
        max_num_seqs=most,
    )
    floor, ceiling = limits.floor, limits.ceiling
    if knee is not None:
        ceiling = SeatLimits.of(knee=knee, kv_tokens=None, mean_tokens=None, max_num_seqs=most).ceiling
    if deployment.tpot_target_s is not None:
        floor = min(floor, FLOOR_WITH_TARGET)
    return SeatLimits(min(floor, ceiling), ceiling)


def tells(replica: RoutedReplica) -> bool:
    """Returns whether anything is known of what fits into a replica."""
    return replica.kv_capacity_tokens is not None or replica.max_num_seqs is not None
