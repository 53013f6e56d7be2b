"""The calls to NVIDIA's management library. A machine without driver is normal; so is a value that a card lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from controlplane.domain.observed import MigDevice
from controlplane.domain.topology import SELF, Topology
from workers.node.inventory_cards import CardProcess, CardReading

T = TypeVar("T")

_PATHS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PIX",  # two chips on one board
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
_UNCORRECTED = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)


class Driver:
    """The driver's library, kept open between readings; after a failure (driver updated, reset, unloaded) it is opened
    anew by the next reading. One owner."""

    def __init__(self) -> None:
        self._is_open = False

    def read_cards(self) -> list[CardReading] | None:
        """Returns all cards, None when there is no driver or it can't be asked."""
        return self._with_library(lambda: [_read_card(index, handle) for index, handle in _handles()])

    def read_topology(self) -> Topology | None:
        """Returns how the cards are wired, None when there are none."""
        return self._with_library(_read_topology)

    def _with_library(self, read: Callable[[], T]) -> T | None:
        try:
            if not self._is_open:
                pynvml.nvmlInit()
                self._is_open = True
            return read()
        except pynvml.NVMLError:
            if self._is_open:
                self._is_open = False
                _ask(pynvml.nvmlShutdown)
            return None


def _read_topology() -> Topology | None:
    handles = [handle for _, handle in _handles()]
    if not handles:
        return None
    buses = [_bus_id(handle) for handle in handles]
    wires = [_nvlinks(handle) for handle in handles]
    links = tuple(
        tuple(SELF if i == j else _link(handles, buses, wires, i, j) for j in range(len(handles)))
        for i in range(len(handles))
    )
    return Topology(links, tuple(_numa_node(bus) for bus in buses))


def _handles() -> list[tuple[int, Any]]:
    """A card that fell off the bus has no handle; it is left out, and so reported as gone."""
    found = ((index, _ask(pynvml.nvmlDeviceGetHandleByIndex, index)) for index in range(pynvml.nvmlDeviceGetCount()))
    return [(index, handle) for index, handle in found if handle is not None]


def _ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the answer, None where the card or the driver has none."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _read_card(index: int, handle: Any) -> CardReading:
    memory = _memory(handle)
    utilization = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    mig = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    mig_enabled = None if mig is None else mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    slices = _mig_handles(handle) if mig_enabled else []
    bus = _bus_id(handle)
    rows = _ask(pynvml.nvmlDeviceGetRemappedRows, handle)  # (corrected, uncorrected, pending, failed)
    return CardReading(
        index=index,
        name=_ask(pynvml.nvmlDeviceGetName, handle),
        uuid=_ask(pynvml.nvmlDeviceGetUUID, handle),
        pci_bus_id=bus,
        memory_total_bytes=None if memory is None else memory.total,
        memory_used_bytes=None if memory is None else memory.used,
        memory_free_bytes=None if memory is None else memory.free,
        utilization_percent=None if utilization is None else utilization.gpu,
        temperature_c=_ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        power_milliwatts=_ask(pynvml.nvmlDeviceGetPowerUsage, handle),
        power_limit_milliwatts=_ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        mig_enabled=mig_enabled,
        mig_devices=tuple(_read_slice(number, one) for number, one in slices),
        processes=tuple(process for one in (handle, *(one for _, one in slices)) for process in _processes(one)),
        numa_node=_numa_node(bus),
        uncorrected_errors=_ask(pynvml.nvmlDeviceGetTotalEccErrors, handle, *_UNCORRECTED),
        remap_pending=_remap_pending(handle, rows),
        remap_failed=None if rows is None else bool(rows[3]),
    )


def _remap_pending(handle: Any, rows: Any) -> bool | None:
    """Cards before Ampere retire pages instead of remapping rows."""
    if rows is not None:
        return bool(rows[2])
    retired = _ask(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
    return None if retired is None else bool(retired)


def _memory(handle: Any) -> Any:
    # The first version counts what the driver keeps for itself as used; older drivers have only that.
    second = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return second if second is not None else _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)


def _mig_handles(handle: Any) -> list[tuple[int, Any]]:
    most = _ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    found = ((number, _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)) for number in range(most))
    return [(number, one) for number, one in found if one is not None]


def _read_slice(number: int, handle: Any) -> MigDevice:
    memory = _memory(handle)
    return MigDevice(
        index=number,
        gpu_instance=_ask(pynvml.nvmlDeviceGetGpuInstanceId, handle),
        compute_instance=_ask(pynvml.nvmlDeviceGetComputeInstanceId, handle),
        uuid=_ask(pynvml.nvmlDeviceGetUUID, handle),
        memory_total_bytes=None if memory is None else memory.total,
        memory_used_bytes=None if memory is None else memory.used,
    )


def _processes(handle: Any) -> list[CardProcess]:
    listed = [
        *(_ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()),
        *(_ask(pynvml.nvmlDeviceGetGraphicsRunningProcesses, handle) or ()),
    ]
    return [CardProcess(one.pid, _process_name(one.pid), one.usedGpuMemory) for one in listed]


def _process_name(pid: int) -> str:
    name = _ask(pynvml.nvmlSystemGetProcessName, pid)
    return Path(name).name if name else "unknown"


def _bus_id(handle: Any) -> str | None:
    pci = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
    if pci is None:
        return None
    return pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)


def _numa_node(bus: str | None) -> int | None:
    if bus is None:
        return None
    # the library writes the PCI domain with eight digits, the kernel with four
    try:
        node = int(Path(f"/sys/bus/pci/devices/{bus[-12:].lower()}/numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _nvlinks(handle: Any) -> list[str]:
    """Returns for each active NVLink of a card the bus id of the other end, or `switch`."""
    ends: list[str] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if _ask(pynvml.nvmlDeviceGetNvLinkState, handle, link) != pynvml.NVML_FEATURE_ENABLED:
            continue
        if _ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            ends.append("switch")
            continue
        pci = _ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        if pci is not None:
            ends.append(pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId))
    return ends


def _link(
    handles: Sequence[Any], buses: Sequence[str | None], wires: Sequence[Sequence[str]], i: int, j: int
) -> str | None:
    through_switch = min(wires[i].count("switch"), wires[j].count("switch"))
    bus = buses[j]
    direct = wires[i].count(bus) if bus is not None else 0
    if through_switch or direct:
        return f"NV{through_switch or direct}"
    return _PATHS.get(_ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, handles[i], handles[j]))
