"""What the pages of the rules of traffic have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from controlplane.console import undo
from controlplane.console.dialogs import Values, leave
from controlplane.console.guard import is_fragment, person
from controlplane.console.lists import Listing
from controlplane.console.undo import Back
from controlplane.deployments.models import Deployment
from controlplane.domain import gateway_sums
from controlplane.domain.errors import RefusedError
from controlplane.domain.gateway_state import DeploymentState
from controlplane.journal import selectors as journal
from controlplane.lib import valkey
from controlplane.traffic import live

_EVENTS = 5


def show(request: HttpRequest, tab: str, table: Listing, kind: str, **more: Any) -> HttpResponse:
    """Returns the page of a tab, or its table alone; `kind`: of its objects in the journal."""
    template = f"traffic/{tab}_table.html"
    context = {"table": table, "tab": tab, "table_template": template, "kind": kind, **more}
    if is_fragment(request):
        return render(request, template, context)
    context["events"] = journal.events(object_kind=kind)[:_EVENTS]
    return render(request, f"traffic/{tab}.html", context)


def done(request: HttpRequest, url: str, message: str, steps: Iterable[Back]) -> HttpResponse:
    """Returns to a page with what was done and, for half a minute, the way back."""
    return leave(request, url, message, undo=undo.note(person(request), *steps))


def now() -> dict[str, DeploymentState]:
    """Returns what the gateways tell of deployments; nothing where Valkey is away: then pages show "–"."""
    try:
        return gateway_sums.deployments(live.gateways())
    except valkey.ERRORS:
        return {}


def deployment_names() -> Any:
    """Returns the names of the deployments to choose from."""
    return Deployment.objects.filter(deleted_at=None).order_by("name").values_list("name", flat=True)


def chosen(values: Values, name: str) -> str:
    """Returns what was chosen; refuses, at the field, where nothing was."""
    found = values.get(name, "").strip()
    if not found:
        sentence = _("Choose one.")
        raise RefusedError("invalid", sentence, fields={name: sentence})
    return found
