"""The list of deployments."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from controlplane.console import rest, samples, words
from controlplane.console.guard import is_fragment, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, Engine
from controlplane.fleet import selectors as fleet

_POOL_CHIPS = 8
_EXAMPLE = {"engine": "vllm", "variant": "MODEL/VARIANT", "replicas": 1}


@page()
def deployments(request: HttpRequest) -> HttpResponse:
    """Deployments with their live numbers, filtered and sorted by the URL."""
    params = params_of(request, ("state", "engine", "pool"))
    filters = {key: params.get(key) for key in ("engine", "pool")}
    rows = selectors.deployments(state=params.get("state"), search=params.get("q"), **filters)
    table = listing(rows, params, _columns())
    states = selectors.status_counts(selectors.deployments(search=params.get("q"), **filters))
    table.add_chips(
        _("State"),
        "state",
        [
            ("", _("All"), sum(states.values())),
            *((s, words.state(s), states[s]) for s in selectors.STATUSES if s in states),
        ],
    )
    engines = dict(Deployment.objects.values_list("engine").annotate(n=Count("pk")))
    if len(engines) > 1:
        choices = [(e, words.of(e), engines[e]) for e in Engine.values if e in engines]
        table.add_chips(_("Engine"), "engine", [("", _("All engines"), None), *choices])
    pools = [row.name for row in fleet.pools()[:_POOL_CHIPS]]
    if len(pools) > 1 or "pool" in params:
        named = dict.fromkeys([*pools, *([params["pool"]] if "pool" in params else [])])
        table.add_chips(_("Pool"), "pool", [("", _("All pools"), None), *((name, name, None) for name in named)])
    newest = samples.newest(f"deployment:{row.name}" for row in table.page)
    context = {"table": table, "samples": newest, "empty_command": rest.call("PUT", "deployments/NAME/", _EXAMPLE)}
    return render(request, "deployments/table.html" if is_fragment(request) else "deployments/list.html", context)


def _columns() -> list[Column]:
    return [
        Column(_("Deployment"), "name"),
        Column(_("State"), "status_now"),
        Column(_("Model"), "variant__model__name", "at-l"),
        Column(_("Engine"), "engine", "at-xl"),
        Column(_("Ready"), "replicas_ready", "num"),
        Column(_("Output"), "", "num", "tok/s"),
        Column(_("Running"), "", "num"),
        Column(_("Waiting"), "", "num"),
        Column(_("KV"), "", "at-l", "%"),
        Column(_("TTFT p95"), "", "num at-l", "ms", _("Of streams, last 60 s")),
        Column(_("Last 5 min"), "", "at-xl"),
        Column(_("Changed"), "changed_at", "num at-xl"),
    ]
