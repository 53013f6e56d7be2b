"""From what the collector saw of a node in one second to the parts it writes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controlplane.domain.observed import AcceleratorObserved
from controlplane.domain.rollups import GaugeWindow, Rollup, slot_of
from controlplane.domain.samples import COLLECTOR, Merge, SamplePart, Values

# of a replica alone: percentiles of different engines have no meaningful sum or mean
_ENGINE_ONLY = "engine_"


@dataclass(frozen=True, slots=True)
class ReplicaSeen:
    """One replica in one second: what its engine said and what its accelerators did."""

    replica_id: str
    deployment: str
    values: Values
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class NodeSeen:
    """One node in one second."""

    node: str
    at: float
    replicas: list[ReplicaSeen] = field(default_factory=list)
    accelerators: Sequence[AcceleratorObserved] = ()


def accelerator_values(accelerators: Iterable[AcceleratorObserved]) -> dict[str, float | None]:
    """Returns the fields of some accelerators together: memory and power added up, use and temperature averaged."""
    merge = Merge()
    for card in accelerators:
        merge.add_values(
            {
                "gpu_utilization": card.utilization,
                "gpu_memory_used_bytes": card.memory_used_bytes,
                "gpu_memory_total_bytes": card.memory_total_bytes,
                "gpu_power_w": card.power_w,
                "gpu_temperature_c": card.temperature_c,
            }
        )
    return dict(merge.values())


def parts_of(seen: NodeSeen) -> list[SamplePart]:
    """Returns the parts of a node's replicas, of its share of each deployment, and of the node itself."""
    source = f"{COLLECTOR}:{seen.node}"
    parts = [
        SamplePart(f"replica:{one.replica_id}", source, seen.at, one.values, problems=one.problems)
        for one in seen.replicas
    ]
    by_deployment: dict[str, list[ReplicaSeen]] = {}
    for one in seen.replicas:
        by_deployment.setdefault(one.deployment, []).append(one)
    for name, members in by_deployment.items():
        problems = tuple(sorted({problem for one in members for problem in one.problems}))
        parts.append(
            SamplePart(
                f"deployment:{name}", source, seen.at, _sum(members), weight=float(len(members)), problems=problems
            )
        )
    # a node's cards are read once, not once a replica
    node_values = {**_sum(seen.replicas), **_no_cards(), **accelerator_values(seen.accelerators)}
    weight = float(max(1, len(seen.accelerators)))
    parts.append(SamplePart(f"node:{seen.node}", source, seen.at, node_values, weight=weight))
    return parts


def _sum(members: Sequence[ReplicaSeen]) -> dict[str, float | None]:
    merge = Merge()
    for one in members:
        merge.add_values({name: v for name, v in one.values.items() if not name.startswith(_ENGINE_ONLY)}, COLLECTOR)
    return dict(merge.values())


def _no_cards() -> dict[str, float | None]:
    return dict.fromkeys(
        ("gpu_utilization", "gpu_memory_used_bytes", "gpu_memory_total_bytes", "gpu_power_w", "gpu_temperature_c")
    )


class RollupClock:
    """Collects parts over 10-second slots. One owner; changes in place."""

    def __init__(self) -> None:
        self._slot: int | None = None
        self._windows: dict[tuple[str, str], GaugeWindow] = {}  # (subject, source) -> values of the running slot

    def add(self, parts: Iterable[SamplePart], now: float) -> list[Rollup]:
        """Adds one second; returns the roll-ups of the slot before when `now` lies in a new one."""
        slot = slot_of(now)
        finished = self.finish() if self._slot is not None and slot != self._slot else []
        self._slot = slot
        for part in parts:
            window = self._windows.setdefault((part.subject, part.source), GaugeWindow())
            window.add(part.values, part.weight)
        return finished

    def finish(self) -> list[Rollup]:
        """Returns the roll-ups of the running slot and begins anew."""
        if self._slot is None:
            return []
        found = [
            Rollup(subject, source, self._slot, gauges=window.gauges(), weight=window.weight)
            for (subject, source), window in self._windows.items()
        ]
        self._windows = {}
        return [rollup for rollup in found if rollup.gauges]
