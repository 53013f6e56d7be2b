"""Reading nodes, accelerators and pools."""

from __future__ import annotations

from django.db.models import Count, Q, QuerySet

from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Accelerator, Node, Pool

_PRESENT = Q(accelerators__present=True)


def nodes(
    *,
    pool: str | None = None,
    lost: bool | None = None,
    cordoned: bool | None = None,
    simulated: bool | None = None,
    search: str | None = None,
) -> QuerySet[Node]:
    """Returns nodes with `accelerators_total` and `accelerators_taken` (of those in the newest report)."""
    rows = Node.objects.select_related("pool").annotate(
        accelerators_total=Count("accelerators", filter=_PRESENT),
        accelerators_taken=Count("accelerators__reservation", filter=_PRESENT),
    )
    rows = rows.order_by("name")  # a count takes away the model's own order
    if pool:
        rows = rows.filter(pool__name=pool)
    if lost is not None:
        rows = rows.filter(lost=lost)
    if cordoned is not None:
        rows = rows.filter(cordoned=cordoned)
    if simulated is not None:
        rows = rows.filter(simulated=simulated)
    if search:
        rows = rows.filter(Q(name__icontains=search) | Q(address__icontains=search))
    return rows


def node(name: str) -> Node:
    """Returns one node with the numbers of `nodes()`; raises RefusedError when there is none of this name."""
    found = nodes().filter(name=name).first()
    if found is None:
        raise RefusedError("no_such_node", f"There is no node {name}.", kind="not_found")
    return found


def accelerators(
    *, node: str | None = None, kind: str | None = None, free: bool | None = None, include_gone: bool = False
) -> QuerySet[Accelerator]:
    """Returns accelerators with their node and reservation. `free` True = nobody holds them."""
    rows = Accelerator.objects.select_related("node", "reservation")
    if not include_gone:
        rows = rows.filter(present=True)
    if node:
        rows = rows.filter(node__name=node)
    if kind:
        rows = rows.filter(kind=kind)
    if free is not None:
        rows = rows.filter(reservation__isnull=free)
    return rows


def pools() -> QuerySet[Pool]:
    """Returns pools with `nodes_total` and `nodes_lost`."""
    return Pool.objects.annotate(
        nodes_total=Count("nodes", distinct=True),
        nodes_lost=Count("nodes", filter=Q(nodes__lost=True), distinct=True),
    ).order_by("name")


def pool(name: str) -> Pool:
    """Returns one pool; raises RefusedError when there is none of this name."""
    found = pools().filter(name=name).first()
    if found is None:
        raise RefusedError("no_such_pool", f"There is no pool {name}.", kind="not_found")
    return found
