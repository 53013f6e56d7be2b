"""Recorded machines as what the driver's library would have said."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from controlplane.domain.observed import MigDevice
from workers.node.inventory_cards import CardProcess, CardReading

MIB = 1024 * 1024


def read(path: Path) -> list[dict[str, Any]]:
    cards: list[dict[str, Any]] = json.loads(path.read_text())["gpus"]
    return cards


def to_bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB


def to_milliwatts(watts: float | None) -> int | None:
    return None if watts is None else round(watts * 1000)


def make_reading(card: dict[str, Any]) -> CardReading:
    """What `inventory_nvml` makes of such a card."""
    return CardReading(
        index=card["index"],
        name=card["name"],
        uuid=card["uuid"],
        pci_bus_id=card["pci_bus_id"],
        memory_total_bytes=to_bytes(card["memory_total_mib"]),
        memory_used_bytes=to_bytes(card["memory_used_mib"]),
        memory_free_bytes=to_bytes(card["memory_free_mib"]),
        utilization_percent=card["utilization_gpu_pct"],
        temperature_c=card["temperature_c"],
        power_milliwatts=to_milliwatts(card["power_draw_w"]),
        power_limit_milliwatts=to_milliwatts(card["power_limit_w"]),
        mig_enabled={"Enabled": True, "Disabled": False}.get(card["mig_mode"] or ""),
        mig_devices=make_slices(card) if card["mig_mode"] == "Enabled" else (),
        processes=tuple(
            CardProcess(one["pid"], one["name"], to_bytes(one["used_memory_mib"])) for one in card["processes"] or ()
        ),
    )


def make_slices(card: dict[str, Any]) -> tuple[MigDevice, ...]:
    return tuple(
        MigDevice(
            index=one["index"],
            gpu_instance=one["gi"],
            compute_instance=one["ci"],
            uuid=one["uuid"],
            memory_total_bytes=to_bytes(one["memory_total_mib"]),
            memory_used_bytes=to_bytes(one["memory_used_mib"]),
        )
        for one in card["mig_devices"] or ()
    )


class RecordedDriver:
    """Stands in for the library: answers from a recording, and refuses with NVML's own error what it does not know."""

    def __init__(self, cards: list[dict[str, Any]], links: list[list[str]] | None = None) -> None:
        self.cards = cards
        self.links = links
        self.opened = 0
        self.broken = False

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in dir(pynvml):
            if name.startswith("nvml") and callable(getattr(pynvml, name)) and name[4:5].isupper():
                monkeypatch.setattr(pynvml, name, getattr(self, name, self.refuse))

    def refuse(self, *arguments: Any) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def known(self, value: Any) -> Any:
        return self.refuse() if value is None else value

    def nvmlInit(self) -> None:
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        if self.broken:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        if self.cards[index].get("lost"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return self.cards[index]

    def nvmlDeviceGetName(self, card: dict[str, Any]) -> str:
        return str(self.known(card.get("name")))

    def nvmlDeviceGetUUID(self, card: dict[str, Any]) -> str:
        return str(self.known(card.get("uuid")))

    def nvmlDeviceGetPciInfo(self, card: dict[str, Any]) -> Any:
        return SimpleNamespace(busId=self.known(card.get("pci_bus_id")).encode())

    def nvmlDeviceGetMemoryInfo(self, card: dict[str, Any], version: int | None = None) -> Any:
        total, used = self.known(card["memory_total_mib"]), self.known(card["memory_used_mib"])
        free = card.get("memory_free_mib")
        return SimpleNamespace(total=total * MIB, used=used * MIB, free=(total - used if free is None else free) * MIB)

    def nvmlDeviceGetTotalEccErrors(self, card: dict[str, Any], kind: int, counter: int) -> int:
        assert (kind, counter) == (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
        return int(self.known(card.get("uncorrected")))

    def nvmlDeviceGetRemappedRows(self, card: dict[str, Any]) -> tuple[int, int, int, int]:
        rows: tuple[int, int, int, int] = self.known(card.get("remapped"))
        return rows

    def nvmlDeviceGetRetiredPagesPendingStatus(self, card: dict[str, Any]) -> int:
        return int(self.known(card.get("retired_pending")))

    def nvmlDeviceGetUtilizationRates(self, card: dict[str, Any]) -> Any:
        return SimpleNamespace(gpu=self.known(card["utilization_gpu_pct"]))

    def nvmlDeviceGetTemperature(self, card: dict[str, Any], sensor: int) -> int:
        return int(self.known(card["temperature_c"]))

    def nvmlDeviceGetPowerUsage(self, card: dict[str, Any]) -> int:
        return round(float(self.known(card["power_draw_w"])) * 1000)

    def nvmlDeviceGetEnforcedPowerLimit(self, card: dict[str, Any]) -> int:
        return round(float(self.known(card["power_limit_w"])) * 1000)

    def nvmlDeviceGetMigMode(self, card: dict[str, Any]) -> list[int]:
        return [int(self.known({"Enabled": 1, "Disabled": 0}.get(card["mig_mode"] or "")))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, card: dict[str, Any]) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: dict[str, Any], index: int) -> dict[str, Any]:
        slices: list[dict[str, Any]] = card["mig_devices"] or []
        if index >= len(slices):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return slices[index]

    def nvmlDeviceGetGpuInstanceId(self, one: dict[str, Any]) -> int:
        return int(self.known(one["gi"]))

    def nvmlDeviceGetComputeInstanceId(self, one: dict[str, Any]) -> int:
        return int(self.known(one["ci"]))

    def nvmlDeviceGetComputeRunningProcesses(self, card: dict[str, Any]) -> list[Any]:
        return self._processes(card, "C")

    def nvmlDeviceGetGraphicsRunningProcesses(self, card: dict[str, Any]) -> list[Any]:
        return self._processes(card, "G")

    def _processes(self, card: dict[str, Any], kind: str) -> list[Any]:
        listed = [one for one in card.get("processes") or () if kind in one["type"]]
        return [SimpleNamespace(pid=one["pid"], usedGpuMemory=to_bytes(one["used_memory_mib"])) for one in listed]

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        for card in self.cards:
            for one in card.get("processes") or ():
                if one["pid"] == pid:
                    return f"/usr/bin/{one['name']}"
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    # -- wires: every recorded NV<n> is either a link to each other card or goes through switches ------------------

    def _row(self, card: dict[str, Any]) -> list[str]:
        return self.known(self.links)[card["index"]]  # type: ignore[no-any-return]

    def _ends(self, card: dict[str, Any]) -> list[str | int]:
        row = self._row(card)
        words = {word for one in self.known(self.links) for word in one if word != "X"}
        every = words.pop() if len(words) == 1 else ""
        if every.startswith("NV") and len(row) > 2:  # all with all by the same number: through switches
            return ["switch"] * int(every[2:])
        return [other for other, word in enumerate(row) if word.startswith("NV") for _ in range(int(word[2:]))]

    def nvmlDeviceGetNvLinkState(self, card: dict[str, Any], link: int) -> int:
        return 1 if link < len(self._ends(card)) else int(self.refuse())

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, card: dict[str, Any], link: int) -> int:
        return 2 if self._ends(card)[link] == "switch" else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card: dict[str, Any], link: int) -> Any:
        other = self._ends(card)[link]
        assert isinstance(other, int)
        return SimpleNamespace(busId=ctypes.create_string_buffer(self.cards[other]["pci_bus_id"].encode()).value)

    def nvmlDeviceGetTopologyCommonAncestor(self, one: dict[str, Any], other: dict[str, Any]) -> int:
        words = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
        return words[self._row(one)[other["index"]]]
