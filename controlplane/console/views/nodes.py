"""Nodes and their accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from controlplane.console import charts, memory, samples
from controlplane.console.guard import is_fragment, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.deployments import selectors as deployments
from controlplane.deployments.models import Replica
from controlplane.fleet import selectors
from controlplane.fleet.models import Accelerator, Node
from controlplane.journal import selectors as journal


@page()
def nodes(request: HttpRequest) -> HttpResponse:
    """All nodes with their accelerators, memory and load."""
    params = params_of(request, ("pool", "state"))
    rows = selectors.nodes(pool=params.get("pool"), search=params.get("q"), **_state_filter(params.get("state")))
    table = listing(rows, params, _columns())
    table.add_chips(_("State"), "state", _state_choices())
    pools = [pool.name for pool in selectors.pools()]
    if len(pools) > 1:
        table.add_chips(_("Pool"), "pool", [("", _("All pools"), None), *((pool, pool, None) for pool in pools)])
    shown = list(table.page)
    context = {
        "table": table,
        "cards": fleet_memory(shown),
        "samples": samples.newest(f"node:{row.name}" for row in shown),
    }
    return render(request, "nodes/table.html" if is_fragment(request) else "nodes/list.html", context)


@page()
def node(request: HttpRequest, name: str) -> HttpResponse:
    """One node: its accelerators, what fills them, what runs where."""
    row = selectors.node(name)
    cards = list(selectors.accelerators(node=name, include_gone=True).order_by("index"))
    running = list(deployments.replicas(node=name))
    newest = samples.newest([f"node:{name}", *(f"replica:{replica.pk}" for replica in running)])
    context = {
        "node": row,
        "cards": [_card(card, running, newest) for card in cards],
        "replicas": running,
        "samples": newest,
        "subject": f"node:{name}",
        "charts": charts.node(name, has_cards=any(card.kind != Accelerator.Kind.CPU for card in cards)),
        "events": journal.events(object_kind="node", object_id=name)[:8],
    }
    return render(request, "nodes/parts.html" if is_fragment(request) else "nodes/detail.html", context)


def fleet_memory(rows: Sequence[Node]) -> dict[int, tuple[int, int]]:
    """Returns node -> (used, total) bytes over its accelerators; a node whose cards do not say is left out."""
    found: dict[int, tuple[int, int]] = {}
    for card in Accelerator.objects.filter(node__in=rows, present=True):
        total = card.observed.get("memory_total_bytes") or card.memory_total_bytes
        used = card.observed.get("memory_used_bytes")
        if total and used is not None:
            before = found.get(card.node_id, (0, 0))
            found[card.node_id] = (before[0] + used, before[1] + total)
    return found


def _card(card: Accelerator, running: Sequence[Replica], newest: samples.Samples) -> dict[str, Any]:
    holders = [replica for replica in running if any(one.get("uuid") == card.uuid for one in replica.assigned)]
    held = [(_share_of(replica), newest.get(f"replica:{replica.pk}", {}).get("kv_usage")) for replica in holders]
    return {
        "row": card,
        "observed": card.observed,
        "memory": memory.parts(card.observed, held),
        "holders": holders,
        "foreign": card.observed.get("foreign_processes") or [],
        "mig": card.observed.get("mig_devices") or [],
    }


def _share_of(replica: Replica) -> dict[str, int]:
    """What one of the replica's accelerators holds: weights are spread over all of them; KV is told for each."""
    number = max(1, len(replica.assigned))
    facts = replica.facts
    return {
        "weights_bytes": int((facts.get("weights_bytes") or 0) / number),
        "kv_cache_bytes": int((facts.get("kv_cache_bytes") or 0) / number),
    }


def _state_filter(state: str | None) -> dict[str, bool]:
    return {"lost": {"lost": True}, "cordoned": {"cordoned": True}, "ready": {"lost": False, "cordoned": False}}.get(
        state or "", {}
    )


def _state_choices() -> list[tuple[str, str, int | None]]:
    pairs = list(Node.objects.values_list("lost", "cordoned"))
    counts = {
        "ready": sum(not lost and not cordoned for lost, cordoned in pairs),
        "cordoned": sum(cordoned for _lost, cordoned in pairs),
        "lost": sum(lost for lost, _cordoned in pairs),
    }
    words = {"ready": _("Ready"), "cordoned": _("Cordoned"), "lost": _("Lost")}
    shown = [(state, words[state], number) for state, number in counts.items() if number]
    return [("", _("All"), len(pairs)), *shown]


def _columns() -> list[Column]:
    return [
        Column(_("Node"), "name"),
        Column(_("State")),
        Column(_("Pool"), "pool__name", "at-l"),
        Column(_("Address"), "address", "at-xl"),
        Column(_("Accelerators"), "accelerators_total", "num"),
        Column(_("Memory used"), "", "at-l"),
        Column(_("Utilization"), "", "", "%"),
        Column(_("Power"), "", "num at-xl", "W"),
        Column(_("Last report"), "last_report_at", "num"),
    ]
