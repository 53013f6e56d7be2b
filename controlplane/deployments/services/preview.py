"""The command line that an engine would get, shown before anything is changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet

from controlplane.deployments.models import Engine
from controlplane.deployments.services import checking, ledgers, mean_request, predictions, starts
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain.desired import AssignedAccelerator
from controlplane.domain.ledger import advice
from controlplane.fleet.models import Accelerator
from engine_adapters import registry
from engine_adapters.base import LaunchPlace

MOST_MAKES = 8
_MAKE = ("name", "kind", "memory_total_bytes")


def preview_ledgers(wish: DeploymentWish, name: str = "preview") -> list[dict[str, Any]]:
    """Returns the memory ledger of a replica of this wish on each make of accelerator in its pool, with its advice.

    Each has `accelerator`, `kind`, `memory_total_bytes` and the columns of a `LedgerRow` that are known before a start;
    `why_unknown` says why there are none. Empty for an external endpoint. Raises RefusedError with the wrong fields.
    """
    checked = checking.check(name, wish)
    if wish.engine == Engine.EXTERNAL:
        return []
    mean = mean_request.tokens(name)
    rows = Accelerator.objects.filter(node__pool=checked.pool, present=True).select_related("node")
    fitting = (
        rows.filter(kind=Accelerator.Kind.SIMULATED)
        if wish.engine == Engine.SIMULATED
        else rows.exclude(kind=Accelerator.Kind.SIMULATED)
    )
    one_of_each = fitting.order_by(*_MAKE, "pk")
    waits = _waits(fitting)
    found: list[dict[str, Any]] = []
    for row in one_of_each.distinct(*_MAKE)[:MOST_MAKES]:
        make = ledgers.make_of_row(row, wish.engine)
        answer = ledgers.of_spec(checked.variant, checked.spec, make, mean_request_tokens=mean)
        place = {"accelerator": row.name, "kind": row.kind, "memory_total_bytes": row.memory_total_bytes}
        columns = {**_EMPTY, **predictions.columns(answer, mean)}
        told = waits.get((row.name, row.kind, row.memory_total_bytes), [])
        found.append({**columns, **place, "advice": [*columns["advice"], *told]})
    return found


def _waits(cards: QuerySet[Accelerator]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Advice by make, where engines are starting on cards of it."""
    starting = starts.on(cards)
    if not starting:
        return {}
    makes = {pk: tuple(make) for pk, *make in cards.order_by().values_list("pk", *_MAKE)}
    return {
        make: [
            asdict(one) for one in advice.would_wait([one for one in starting if makes.get(one.card) == make], count)
        ]
        for make, count in Counter(makes.values()).items()
    }


_EMPTY: dict[str, Any] = {
    "why_unknown": "",
    "claim_bytes": None,
    "predicted": {},
    "correction": {},
    "concurrency_ceiling": None,
    "mean_request_tokens": None,
    "advice": [],
    "assumptions": [],
}


def preview_command(wish: DeploymentWish, name: str = "preview") -> list[str]:
    """Returns the argument list that a replica of this wish would start with; empty for an external endpoint.

    The port and the replica's folder stand as examples; accelerators are like those of the pool. Raises RefusedError
    with the wrong fields.
    """
    checked = checking.check(name, wish)
    if wish.engine == Engine.EXTERNAL:
        return []
    row = Accelerator.objects.filter(node__pool=checked.pool, present=True).select_related("node").first()
    kind = row.kind if row else "cpu"
    one = AssignedAccelerator(
        uuid="0",
        kind=kind,
        address=row.address if row else "0",
        name=row.name if row else "",
        memory_bytes=(row.memory_total_bytes or 0) if row else 0,
    )
    place = LaunchPlace(
        replica_id="preview",
        host="127.0.0.1",
        port=8001,
        key="",
        accelerators=(one,) * wish.accelerators_per_replica,
        engine_python="python",
        code_root=".",
        work_dir="replica",
        engine_version=str(row.node.engines.get(wish.engine) or "") if row else "",
    )
    spec = checking.engine_spec(checked.spec, "cuda" if kind == Accelerator.Kind.GPU else "cpu")
    return list(registry.get(wish.engine).command(spec, place).argv)
