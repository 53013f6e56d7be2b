"""From what the NVIDIA driver says to what Headworks reports. Pure; the calls are in `inventory_nvml`.

None = the driver does not say (`N/A`). Nothing is guessed from a card's name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from controlplane.domain.observed import AcceleratorObserved, ForeignProcess, MigDevice, ReplicaUse


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process on a card; it may be listed as compute and as graphics."""

    pid: int
    name: str
    used_bytes: int | None


@dataclass(frozen=True, slots=True)
class CardReading:
    """One card in the driver's own units."""

    index: int
    name: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    utilization_percent: int | None = None
    temperature_c: int | None = None
    power_milliwatts: int | None = None
    power_limit_milliwatts: int | None = None
    mig_enabled: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    processes: tuple[CardProcess, ...] = ()
    numa_node: int | None = None
    uncorrected_errors: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None


def observe(card: CardReading, own_pids: Mapping[int, str]) -> AcceleratorObserved:
    """Returns a card as it is reported; `own_pids` are the processes of this node's engines and their replicas.

    A card without uuid gets one made of its PCI address or index, so that it can at least be told apart; engines
    are then given its index.
    """
    uuid = card.uuid or f"card-{card.pci_bus_id or card.index}"
    return AcceleratorObserved(
        uuid=uuid,
        index=card.index,
        kind="gpu",
        name=card.name or "unknown card",
        address=card.uuid or str(card.index),
        memory_total_bytes=card.memory_total_bytes,
        memory_used_bytes=card.memory_used_bytes,
        memory_free_bytes=_free(card),
        utilization=None if card.utilization_percent is None else card.utilization_percent / 100,
        temperature_c=None if card.temperature_c is None else float(card.temperature_c),
        power_w=_watts(card.power_milliwatts),
        power_limit_w=_watts(card.power_limit_milliwatts),
        mig_enabled=card.mig_enabled,
        mig_devices=card.mig_devices,
        foreign_processes=foreign(card.processes, own_pids),
        replica_use=replica_use(card.processes, own_pids),
        numa_node=card.numa_node,
        uncorrected_errors=card.uncorrected_errors,
        remap_pending=card.remap_pending,
        remap_failed=card.remap_failed,
    )


def foreign(processes: Sequence[CardProcess], own_pids: Collection[int]) -> tuple[ForeignProcess, ...]:
    """Returns the processes that are not ours, one entry a pid with the most memory that was listed for it."""
    found: dict[int, ForeignProcess] = {}
    for one in processes:
        if one.pid in own_pids:
            continue
        before = found.get(one.pid)
        if before is None or (one.used_bytes or 0) > (before.used_bytes or 0):
            found[one.pid] = ForeignProcess(one.pid, one.name, one.used_bytes)
    return tuple(found[pid] for pid in sorted(found))


def replica_use(processes: Sequence[CardProcess], own_pids: Mapping[int, str]) -> tuple[ReplicaUse, ...]:
    """Returns what each replica uses of a card; none of one with a process whose use the driver does not tell."""
    most: dict[int, int | None] = {}
    for one in processes:
        if one.pid in own_pids and (one.used_bytes is not None or one.pid not in most):
            most[one.pid] = max(one.used_bytes or 0, most.get(one.pid) or 0) if one.used_bytes is not None else None
    found: dict[str, int] = {}
    untold = {own_pids[pid] for pid, used in most.items() if used is None}
    for pid, used in most.items():
        if own_pids[pid] not in untold:
            found[own_pids[pid]] = found.get(own_pids[pid], 0) + (used or 0)
    return tuple(ReplicaUse(replica, found[replica]) for replica in sorted(found))


def _free(card: CardReading) -> int | None:
    if card.memory_free_bytes is not None:
        return card.memory_free_bytes
    if card.memory_total_bytes is None or card.memory_used_bytes is None:
        return None
    return card.memory_total_bytes - card.memory_used_bytes


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000
