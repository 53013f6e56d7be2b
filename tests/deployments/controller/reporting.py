"""A node as the controller hears it, without the node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.domain.desired import NodeDesired
from controlplane.domain.lifecycle import Reason, Transition
from controlplane.domain.observed import REPORT_SCHEMA, AcceleratorObserved, NodeReport, ReplicaObserved


def make_accelerator(uuid: str = "n1-0", **fields: Any) -> AcceleratorObserved:
    given: dict[str, Any] = {
        "uuid": uuid,
        "index": 0,
        "kind": "cpu",
        "name": "cores",
        "address": "0-1",
        "memory_total_bytes": 1000,
        "memory_used_bytes": 10,
        "memory_free_bytes": 990,
        **fields,
    }
    return AcceleratorObserved(**given)


def make_observed(replica_id: str, state: str = "ready", *, seq: int = 1, **fields: Any) -> ReplicaObserved:
    given: dict[str, Any] = {
        "replica_id": replica_id,
        "state": state,
        "since": 1000.0,
        "goal": "run",
        "seq": seq,
        "attempt": 0,
        "retry_at": None,
        "pid": 7,
        "process_started_at": 900.0,
        "url": "http://127.0.0.1:9001",
        "log_path": "/log",
        "transitions": (make_transition(seq, state),),
        **fields,
    }
    return ReplicaObserved(**given)


def make_transition(seq: int, to_state: str, from_state: str = "warming", **fields: Any) -> Transition:
    given: dict[str, Any] = {"seq": seq, "at": 1000.0 + seq, "from_state": from_state, "to_state": to_state, **fields}
    return Transition(**{"reason": Reason("code", f"became {to_state}"), **given})


@dataclass
class Reporter:
    """Numbers the reports of one node as a worker does; `restart` makes it a new worker."""

    node: str = "n1"
    cards: int = 2
    kind: str = "cpu"
    incarnation: str = "first"
    machine: str = "m1"
    starts: int = 1
    sequence: int = 0
    fields: dict[str, Any] = field(default_factory=dict)

    def report(self, *replicas: ReplicaObserved, **fields: Any) -> NodeReport:
        self.sequence += 1
        cards = tuple(
            make_accelerator(f"{self.node}-{index}", index=index, kind=self.kind, address=str(index))
            for index in range(self.cards)
        )
        base = NodeReport(
            schema=REPORT_SCHEMA,
            node=self.node,
            incarnation=self.incarnation,
            sequence=self.sequence,
            reported_at=0.0,
            address="127.0.0.1",
            worker_pid=1,
            desired_version=0,
            accelerators=cards,
            replicas=replicas,
            engines={"vllm": "0.32.0"},
            simulated=self.kind == "simulated",
            machine=self.machine,
            starts=self.starts,
        )
        return replace(base, **{**self.fields, **fields})

    def restart(self) -> None:
        self.incarnation, self.sequence = f"{self.incarnation}+", 0
        self.starts += 1

    def obey(self, desired: NodeDesired) -> NodeReport:
        """What a quick node reports next: what shall run is ready, what shall stop has stopped."""
        replicas = [
            make_observed(one.replica_id, "ready", seq=3, goal="run")
            if one.goal == "run"
            else make_observed(one.replica_id, "stopped", seq=5, goal="stop", url=None, pid=None)
            for one in desired.replicas
        ]
        return self.report(*replicas, desired_version=desired.version)
