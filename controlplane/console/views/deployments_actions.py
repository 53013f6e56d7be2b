"""What can be done to several deployments at once; what was not done is named with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.db.models import Count, Q, Sum
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.console import rest, undo
from controlplane.console.dialogs import Dialog, Values, ask, whole
from controlplane.console.guard import ASKS, actor, page, person
from controlplane.console.undo import Back
from controlplane.console.views.progress import begun, of_deployments
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, Engine, Replica
from controlplane.deployments.services import deployments as services
from controlplane.domain.errors import RefusedError

MOST = 100  # at once
_SERVICES: dict[str, Callable[..., Deployment]] = {
    "start": services.start,
    "drain": services.drain,
    "stop": services.stop,
}


@page(roles.OPERATOR, ASKS)
def many(request: HttpRequest, verb: str) -> HttpResponse:
    """Start, drain or stop several deployments at once."""
    if verb not in _SERVICES:
        raise RefusedError("no_such_action", _("There is no action %(verb)s.") % {"verb": verb}, kind="not_found")
    names = (request.POST if request.method == "POST" else request.GET).getlist("name")[:MOST]
    rows = list(selectors.deployments().filter(name__in=names))

    def do(values: Values) -> HttpResponse:
        changed: list[Back] = []
        refused: list[tuple[str, RefusedError]] = []
        for row in rows:
            version = f"version:{row.name}"
            expected = whole(values, version) if version in values else None
            try:
                after = _SERVICES[verb](actor=actor(request), name=row.name, expected_version=expected)
            except RefusedError as error:
                refused.append((row.name, error))
                continue
            if after.version != row.version:
                changed.append(Back("desired", row.name, after.version, {"state": row.desired_state}))
        told = [name for name, _error in refused]
        work = of_deployments([row.name for row in rows if row.name not in told])
        note = undo.note(person(request), *changed)
        return begun(request, work, done(verb, len(rows) - len(refused)), note=note, refused=refused)

    return ask(request, lambda _values: _dialog(verb, rows), do)


def _dialog(verb: str, rows: Sequence[Deployment]) -> Dialog:
    titles = {"start": _("Start deployments"), "drain": _("Drain deployments"), "stop": _("Stop deployments")}
    labels = {"start": _("Start"), "drain": _("Drain"), "stop": _("Stop")}
    says = [", ".join(row.name for row in rows)]
    if verb == "start":
        managed = [row for row in rows if row.engine != Engine.EXTERNAL]
        wanted = sum(row.replicas_wanted for row in managed)
        if managed:
            says.append(ngettext("%(n)d replica is wanted.", "%(n)d replicas are wanted.", wanted) % {"n": wanted})
        if endpoints := len(rows) - len(managed):
            text = ngettext("%(n)d endpoint is put to use.", "%(n)d endpoints are put to use.", endpoints)
            says.append(text % {"n": endpoints})
    else:
        says += ending(rows)
    call = "\n\n".join(rest.call("POST", f"deployments/{row.name}/{verb}/", version=row.version) for row in rows[:20])
    hidden = [pair for row in rows for pair in (("name", row.name), (f"version:{row.name}", str(row.version)))]
    return Dialog(
        titles[verb], labels[verb], says, rest=call, danger=verb == "stop", hidden=hidden, back=reverse("deployments")
    )


def done(verb: str, number: int) -> str:
    """Returns what was done, for a page without scripts or where nothing goes on."""
    texts = {
        "start": ngettext("%(n)d deployment is starting.", "%(n)d deployments are starting.", number),
        "drain": ngettext("%(n)d deployment is draining.", "%(n)d deployments are draining.", number),
        "stop": ngettext("%(n)d deployment is stopping.", "%(n)d deployments are stopping.", number),
        "scale": _("The number of replicas was changed."),
        "freeze": _("Frozen: nothing changes by itself."),
        "unfreeze": _("Unfrozen: the system acts again."),
        "clone": _("This is the copy. It is stopped."),
        "delete": _("It is drained and then removed."),
    }
    return texts[verb] % {"n": number} if "%(n)d" in texts[verb] else texts[verb]


def ending(rows: Sequence[Deployment]) -> list[str]:
    """Returns in numbers what ends with these deployments: replicas and the requests that run on them. An external
    endpoint does not end."""
    managed = [row for row in rows if row.engine != Engine.EXTERNAL]
    says = _ending(managed) if managed or not rows else []
    if endpoints := len(rows) - len(managed):
        text = ngettext(
            "Nothing new is sent to the endpoint. It runs on, and answers to their end the requests that it has.",
            "Nothing new is sent to %(n)d endpoints. They run on, and answer to their end the requests that they have.",
            endpoints,
        )
        says.append(text % {"n": endpoints})
    return says


def _ending(rows: Sequence[Deployment]) -> list[str]:
    living = Replica.objects.filter(deployment__in=rows, ended_at=None)
    numbers = living.aggregate(
        replicas=Count("pk"), known=Count("pk", filter=Q(in_flight__isnull=False)), requests=Sum("in_flight")
    )
    if not numbers["replicas"]:
        return [_("No replica runs now.")]
    count, requests = numbers["replicas"], numbers["requests"] or 0
    text = ngettext("Ends %(n)d replica.", "Ends %(n)d replicas.", count) % {"n": count}
    if not numbers["known"]:
        return [text]
    return [text, ngettext("%(n)d request is running.", "%(n)d requests are running.", requests) % {"n": requests}]
