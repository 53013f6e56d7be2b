"""Between which bounds the seats of a replica move."""

from __future__ import annotations

from controlplane.domain.admission.seats import SeatLimits
from controlplane.domain.routing import RoutedDeployment, RoutedReplica

EXTERNAL = "external"
NO_LIMIT = 1_000_000
UNKNOWN_CEILING = 1024  # of an engine that tells nothing: what it shows decides
UNKNOWN_MEAN_TOKENS = 1024.0  # until requests have been counted


def limits_of(replica: RoutedReplica, deployment: RoutedDeployment, mean_tokens: float) -> SeatLimits:
    """Returns the bounds. An endpoint that somebody else runs has its own queue and says itself when it is full."""
    if deployment.engine == EXTERNAL:
        return SeatLimits(NO_LIMIT, NO_LIMIT)
    if replica.kv_capacity_tokens is None and replica.max_num_seqs is None:
        return SeatLimits(16, UNKNOWN_CEILING)
    return SeatLimits.of(
        knee=None,
        kv_tokens=replica.kv_capacity_tokens,
        mean_tokens=mean_tokens or UNKNOWN_MEAN_TOKENS,
        max_num_seqs=replica.max_num_seqs,
    )
