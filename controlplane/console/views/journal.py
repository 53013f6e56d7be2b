"""The journal: what people and programs did, and what the system decided by itself."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.console import words
from controlplane.console.guard import is_fragment, page
from controlplane.console.lists import Column, Listing, listing, params_of
from controlplane.domain.access import ACCOUNT_EVENTS
from controlplane.journal import selectors

_SINCE = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}
KINDS = (
    "deployment", "replica", "node", "pool", "model", "variant", "tier", "quota", "share", "ladder", "slo", "price",
    "key_tier", "tenant", "api_key", "user", "token", "gateway", "system",
)  # fmt: skip
_FILTERS = ("kind", "id", "actor", "verb", "level", "since")


@page()
def events(request: HttpRequest) -> HttpResponse:
    """All events, filtered by the URL."""
    table = event_list(request)
    seen = selectors.events(with_accounts=roles.may(request, ACCOUNT_EVENTS))
    actors = seen.order_by("actor").values_list("actor", flat=True).distinct()[:50]
    context = {"table": table, "tab": "events", "kinds": KINDS, "actors": list(actors), "since": _since_choices()}
    return render(request, "journal/table.html" if is_fragment(request) else "journal/events.html", context)


@page()
def decisions(request: HttpRequest) -> HttpResponse:
    """All decisions of the system, filtered by the URL."""
    params = params_of(request, ("kind", "id", "rule", "since"))
    rows = selectors.decisions(
        object_kind=params.get("kind"),
        object_id=params.get("id"),
        rule=params.get("rule"),
        since=_since(params),
        search=params.get("q"),
    )
    table = listing(rows, params, [Column(_("Last"), "last_at"), Column(_("Rule"), "rule"), Column(_("What and why"))])
    table.add_chips(_("Time"), "since", [("", _("All time"), None), *_since_choices()])
    context = {"table": table, "tab": "decisions", "kinds": KINDS, "since": _since_choices()}
    return render(request, "journal/decision_table.html" if is_fragment(request) else "journal/decisions.html", context)


def event_list(request: HttpRequest, *, object_kind: str | None = None, object_id: str | None = None) -> Listing:
    """Returns the events that the URL asks for; of one object and its replicas where it is given."""
    params = params_of(request, _FILTERS)
    rows = selectors.events(
        verb=params.get("verb"),
        actor=params.get("actor"),
        level=params.get("level"),
        since=_since(params),
        search=params.get("q"),
        with_accounts=roles.may(request, ACCOUNT_EVENTS),
    )
    if object_kind == "deployment":
        rows = rows.filter(deployment=object_id)
    elif object_kind:
        rows = rows.filter(object_kind=object_kind, object_id=object_id or "")
    else:
        if "kind" in params:
            rows = rows.filter(object_kind=params["kind"])
        if "id" in params:
            rows = rows.filter(object_id=params["id"])
    columns = [
        Column(_("Time"), "at"),
        Column(_("Who"), "actor"),
        Column(_("What"), "verb"),
        Column(_("Object"), "object_name"),
    ]
    table = listing(rows, params, columns)
    levels = [("", _("All"), None), *((level, words.of(level), None) for level in ("info", "warning", "error"))]
    table.add_chips(_("Level"), "level", levels)
    table.add_chips(_("Time"), "since", [("", _("All time"), None), *_since_choices()])
    return table


def _since(params: dict[str, str]) -> datetime | None:
    span = _SINCE.get(params.get("since", ""))
    return timezone.now() - span if span else None


def _since_choices() -> list[tuple[str, str, None]]:
    return [("1h", _("1 hour"), None), ("24h", _("24 hours"), None), ("7d", _("7 days"), None)]
