"""What of quotas is used now, for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.domain.gateway_state import Heard
from controlplane.domain.quotas.measures import MEASURES
from controlplane.domain.quotas.use import LimitUse, limit_use
from controlplane.lib import gateway_state, quota_use, valkey
from controlplane.traffic.models import Quota

Address = tuple[str, str, str]  # tenant, quota, measure


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a quota with its use."""

    measure: str
    use: LimitUse


def of(quotas: Sequence[Quota]) -> dict[int, list[Limit]]:
    """Returns quota -> its limits with what is used of each; unknown where Valkey can't be reached."""
    meters = [(str(row.pk), name) for row in quotas for name in row.limits if name in MEASURES]
    try:
        client = valkey.connect()
        try:
            now, is_known, shared = quota_use.read(client, meters)
            running = _running(gateway_state.read(client))
        finally:
            client.close()
    except valkey.ERRORS:
        return {row.pk: [Limit(name, LimitUse(limit, None)) for name, limit in row.limits.items()] for row in quotas}
    return {
        row.pk: [
            Limit(
                name,
                limit_use(
                    MEASURES[name], limit, shared[str(row.pk), name], now, is_known=is_known,
                    running=None if running is None else running.get((row.tenant.name, row.name, name), 0),
                ),
            )
            for name, limit in row.limits.items()
            if name in MEASURES
        ]
        for row in quotas
    }  # fmt: skip


def _running(heard: Iterable[Heard]) -> Mapping[Address, int] | None:
    """What running requests hold of limits, over all gateways that are heard; None where none is."""
    found: dict[Address, int] = {}
    states = [one.state for one in heard if one.is_fresh]
    for lease in (lease for state in states for lease in state.leases):
        address = (lease.tenant, lease.quota, lease.measure)
        found[address] = found.get(address, 0) + lease.reserved
    return found if states else None
