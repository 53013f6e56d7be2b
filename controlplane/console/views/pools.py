"""Pools: named groups of nodes."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.console import amounts, rest, words
from controlplane.console.amounts import PERCENT, Amount
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, seen
from controlplane.console.guard import ASKS, actor, is_fragment, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.deployments.models import Deployment
from controlplane.fleet import selectors
from controlplane.fleet.models import Pool
from controlplane.fleet.services import pools as services


@page()
def pools(request: HttpRequest) -> HttpResponse:
    """All pools with how many nodes and deployments they have."""
    params = params_of(request, ())
    rows = selectors.pools()
    if "q" in params:
        rows = rows.filter(name__icontains=params["q"])
    columns = [
        Column(_("Pool"), "name"),
        Column(_("Purpose"), "purpose"),
        Column(_("Hot"), "hot"),
        Column(_("Nodes"), "nodes_total", "num"),
        Column(_("Deployments"), "", "num"),
        Column(_("Actions"), "", "quiet"),
    ]
    table = listing(rows, params, columns)
    used = Deployment.objects.filter(pool__in=[row.pk for row in table.page]).order_by()
    context = {"table": table, "used": dict(used.values_list("pool").annotate(n=Count("pk")))}
    return render(request, "pools/table.html" if is_fragment(request) else "pools/list.html", context)


@page(roles.OPERATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """Makes a pool."""

    def do(values: Values) -> HttpResponse:
        _apply(request, values.get("name", "").strip(), values, 0)
        return leave(request, reverse("pools"), _("The pool was made. Move nodes into it next."))

    return ask(request, lambda values: _dialog(request, values, None), do)


@page(roles.OPERATOR, ASKS)
def edit(request: HttpRequest, name: str) -> HttpResponse:
    """Changes what a pool is for."""
    row = selectors.pool(name)

    def do(values: Values) -> HttpResponse:
        _apply(request, name, values, seen(values))
        return leave(request, reverse("pools"), _("Saved."))

    return ask(request, lambda values: _dialog(request, values, row), do)


@page(roles.OPERATOR, ASKS)
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Removes an empty pool."""
    row = selectors.pool(name)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), name=name, expected_version=seen(values))
        return leave(request, reverse("pools"), _("The pool was removed."))

    dialog = Dialog(
        _("Remove pool %(name)s") % {"name": name},
        _("Remove"),
        [_holds(row), _("Only a pool without nodes and deployments can be removed.")],
        rest=rest.call("DELETE", f"pools/{name}/", version=row.version),
        danger=True,
        back=reverse("pools"),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def _apply(request: HttpRequest, name: str, values: Values, expected_version: int | None) -> None:
    services.apply(
        actor=actor(request),
        name=name,
        purpose=values.get("purpose", ""),
        hot=values.get("hot") == "on",
        strategy=values.get("strategy") or None,
        batch_kv_share=amounts.read(_amounts(), values)["batch_kv_share"],
        expected_version=expected_version,
    )


def _dialog(request: HttpRequest, values: Values, row: Pool | None) -> Dialog:
    purpose = values.get("purpose", row.purpose if row else Pool.Purpose.MIXED.value)
    hot = values.get("hot", "") if request.method == "POST" else "on" if row is None or row.hot else ""
    strategy = values.get("strategy", row.strategy if row else Pool.Strategy.SPREAD.value)
    stored = {"batch_kv_share": row.batch_kv_share if row else None}
    strategies = (
        (Pool.Strategy.SPREAD.value, _("Spread: over many nodes")),
        (Pool.Strategy.PACK.value, _("Pack: fill a node first")),
    )
    purposes = tuple((one, words.of(one)) for one in Pool.Purpose.values)
    fields = [
        Field("purpose", _("Purpose"), "select", purpose, choices=purposes, required=True),
        Field("strategy", _("Placement"), "select", strategy, choices=strategies, required=True),
        *amounts.fields(_amounts(), values, stored),
        Field("hot", _("Hot: its nodes are kept running"), "check", hot, full=True),
    ]
    if row is None:
        help_text = _("Lower-case letters, digits and hyphens.")
        fields.insert(0, Field("name", _("Name"), value=values.get("name", ""), required=True, help=help_text))
    name, version = (row.name, row.version) if row else (values.get("name") or "NAME", 0)
    share = amounts.told(_amounts(), values, stored)
    body = {"purpose": purpose, "hot": hot == "on", "strategy": strategy, **share}
    return Dialog(
        _("Edit %(name)s") % {"name": name} if row else _("New pool"),
        _("Save") if row else _("Make pool"),
        [_holds(row)] if row else [],
        fields,
        rest.call("PUT", f"pools/{name}/", body, version=version),
        back=reverse("pools"),
        version=version if row else None,
    )


def _amounts() -> list[Amount]:
    help_text = _("Of a replica's KV tokens. Empty = as the tier says. For example 80.")
    return [Amount("batch_kv_share", _("Batch may hold"), "%", help_text, 0, 100, PERCENT, above=True, optional=True)]


def _holds(row: Pool) -> str:
    nodes = getattr(row, "nodes_total", 0)
    deployments = Deployment.objects.filter(pool=row).count()
    first = ngettext("%(n)d node", "%(n)d nodes", nodes) % {"n": nodes}
    second = ngettext("%(n)d deployment", "%(n)d deployments", deployments) % {"n": deployments}
    return _("It has %(nodes)s and %(deployments)s.") % {"nodes": first, "deployments": second}
