"""Nodes and their accelerators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.console import charts, ledger_rows, memory, samples
from controlplane.console.guard import is_fragment, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.replicas import replica_columns
from controlplane.deployments import selectors as deployments
from controlplane.deployments.models import LedgerRow, Replica
from controlplane.domain import card_health
from controlplane.domain.model_files import COUNTS_FOR_S, MOST_LOCATIONS
from controlplane.fleet import selectors
from controlplane.fleet.models import Accelerator, Node
from controlplane.journal import selectors as journal

_POOL_CHIPS = 8
_FILES_COUNT = timedelta(seconds=COUNTS_FOR_S)
_CARDS = 64  # of a page
_REPLICAS = 50  # of a page; a websocket takes 100 subjects


@page()
def nodes(request: HttpRequest) -> HttpResponse:
    """All nodes with their accelerators, memory and load."""
    params = params_of(request, ("pool", "state"))
    rows = selectors.nodes(pool=params.get("pool"), search=params.get("q"))
    table = listing(rows.filter(**_state_filter(params.get("state"))), params, _columns())
    table.add_chips(_("State"), "state", _state_choices(rows))
    pools = [pool.name for pool in selectors.pools()[:_POOL_CHIPS]]
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
    params = params_of(request, ("cards",))
    pages = Paginator(selectors.accelerators(node=name, include_gone=True).order_by("index"), _CARDS)
    cards = pages.get_page(params.get("cards", "1"))
    running = deployments.replicas(node=name).order_by("created_at")
    table = listing(running, params, replica_columns(with_node=False), size=_REPLICAS)
    holders = {replica.pk: replica for replica in deployments.replicas(node=name).filter(pk__in=_owners(cards))}
    shown = {*holders, *(replica.pk for replica in table.page)}
    ledgers = deployments.ledgers_of(holders)
    newest = samples.newest([f"node:{name}", *(f"replica:{replica_id}" for replica_id in shown)])
    context = {
        "node": row,
        "cards": [_card(card, holders, newest, ledgers) for card in cards],
        "cards_page": cards,
        "table": table,
        "replicas": list(table.page),
        "samples": newest,
        "subject": f"node:{name}",
        "charts": charts.node(name, has_cards=any(card.kind != Accelerator.Kind.CPU for card in cards)),
        "model_files": selectors.model_files(node=name)[:MOST_LOCATIONS],
        "files_count": not row.files_looked_at or timezone.now() - row.files_looked_at < _FILES_COUNT,
        "events": journal.events(object_kind="node", object_id=name)[:8],
    }
    return render(request, "nodes/parts.html" if is_fragment(request) else "nodes/detail.html", context)


def fleet_memory(rows: Sequence[Node]) -> dict[int, list[memory.Part]]:
    """Returns node -> what fills its accelerators together; a node whose cards do not say is left out."""
    cards = list(Accelerator.objects.filter(node__in=rows, present=True).prefetch_related("reservations"))
    holders = {
        replica.pk: replica
        for replica in Replica.objects.filter(pk__in=_owners(cards)).only("id", "assigned", "facts", "state")
    }
    newest = samples.newest(f"replica:{replica_id}" for replica_id in holders)
    stacks: dict[int, list[list[memory.Part]]] = {}
    for card in cards:
        if card.observed.get("memory_used_bytes") is not None:
            stacks.setdefault(card.node_id, []).append(_stack(card, holders, newest))
    return {node_id: found for node_id, stack in stacks.items() if (found := memory.joined(stack))}


def _owners(cards: Iterable[Accelerator]) -> set[str]:
    """The replicas that hold these accelerators."""
    return {held.owner_id for card in cards for held in card.reservations.all()}


def _stack(card: Accelerator, holders: Mapping[str, Replica], newest: samples.Samples) -> list[memory.Part]:
    held = [holders[one] for one in _owners([card]) if one in holders]
    shares = [(_share_of(replica), newest.get(f"replica:{replica.pk}", {}).get("kv_usage")) for replica in held]
    return memory.parts(card.observed, shares)


def _card(
    card: Accelerator, holders: Mapping[str, Replica], newest: samples.Samples, ledgers: Mapping[str, LedgerRow]
) -> dict[str, Any]:
    shares = selectors.shares_of(card)
    owners = [one for one in _owners([card]) if one in holders]
    return {
        "row": card,
        "observed": card.observed,
        "memory": _stack(card, holders, newest),
        "measured": card.observed.get("memory_used_bytes") is not None,
        "holders": [(holders[one], ledger_rows.of_row(ledgers.get(one))) for one in owners],
        "shares": shares,
        "held": ledger_rows.holders(shares, dict(holders)),
        "not_back": [one for one in shares.holders if one.not_back_since],
        "foreign": card.observed.get("foreign_processes") or [],
        "unfit": card_health.why_unfit(card.observed),
        "mig": card.observed.get("mig_devices") or [],
    }


def _share_of(replica: Replica) -> dict[str, int]:
    """What one of the replica's accelerators holds: engines tell both of one accelerator."""
    facts = replica.facts
    return {name: int(facts.get(name) or 0) for name in ("weights_bytes", "kv_cache_bytes")}


def _state_filter(state: str | None) -> dict[str, bool]:
    return {"lost": {"lost": True}, "cordoned": {"cordoned": True}, "ready": {"lost": False, "cordoned": False}}.get(
        state or "", {}
    )


def _state_choices(rows: QuerySet[Node]) -> list[tuple[str, str, int | None]]:
    counts = selectors.node_states(rows)
    words = {"ready": _("Ready"), "cordoned": _("Cordoned"), "lost": _("Lost")}
    return [("", _("All"), counts["all"]), *((state, words[state], counts[state]) for state in words if counts[state])]


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
