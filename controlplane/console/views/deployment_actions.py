"""What can be done to deployments: each dialog says in numbers what will happen, then shows the progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.console import progress, rest, units
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, whole
from controlplane.console.guard import actor, is_fragment, page
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, Replica, ReplicaState
from controlplane.deployments.services import deployments as services
from controlplane.domain.errors import RefusedError
from controlplane.journal.services.record import Actor


@dataclass(frozen=True, slots=True)
class Verb:
    """One action: what its dialog says and what it does."""

    dialog: Callable[[Deployment, Values], Dialog]
    do: Callable[[Actor, Deployment, Values], object]


@page(roles.OPERATOR)
def one(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """The dialog of one action on one deployment."""
    known = _verb(verb)
    deployment = selectors.deployment(name)

    def do(values: Values) -> HttpResponse:
        known.do(actor(request), deployment, values)
        if verb == "clone":
            return leave(request, reverse("deployment", args=[values.get("new_name", "").strip()]))
        return _progress(request, name)

    return ask(request, lambda values: known.dialog(deployment, values), do)


@page(roles.OPERATOR)
def many(request: HttpRequest, verb: str) -> HttpResponse:
    """Start, drain or stop several deployments at once."""
    if verb not in ("start", "drain", "stop"):
        raise _no_such(verb)
    names = (request.POST if request.method == "POST" else request.GET).getlist("name")[:100]
    rows = list(selectors.deployments().filter(name__in=names))

    def do(_values: Values) -> HttpResponse:
        for row in rows:
            getattr(services, verb)(actor=actor(request), name=row.name)
        return leave(request, reverse("deployments"), _done(verb, len(rows)))

    return ask(request, lambda _values: _many_dialog(verb, rows), do)


def _verb(name: str) -> Verb:
    verbs = {
        "start": Verb(_start, lambda who, row, _v: services.start(actor=who, name=row.name)),
        "scale": Verb(
            _scale, lambda who, row, v: services.scale(actor=who, name=row.name, replicas=whole(v, "replicas"))
        ),
        "drain": Verb(_drain, lambda who, row, _v: services.drain(actor=who, name=row.name)),
        "stop": Verb(_stop, lambda who, row, _v: services.stop(actor=who, name=row.name)),
        "clone": Verb(
            _clone, lambda who, row, v: services.clone(actor=who, name=row.name, new_name=v.get("new_name", "").strip())
        ),
        "delete": Verb(_delete, _do_delete),
    }
    if name not in verbs:
        raise _no_such(name)
    return verbs[name]


def _no_such(verb: str) -> RefusedError:
    return RefusedError("no_such_action", _("There is no action %(verb)s.") % {"verb": verb}, kind="not_found")


def _progress(request: HttpRequest, name: str) -> HttpResponse:
    if not is_fragment(request):
        return redirect("deployment", name)
    deployment = selectors.deployment(name)
    context = {"deployment": deployment, "progress": progress.of(deployment), "first": True}
    return render(request, "parts/progress.html", context)


def _start(row: Deployment, _values: Values) -> Dialog:
    wanted = row.replicas_wanted
    says = [
        ngettext("Starts %(n)d replica on pool %(pool)s.", "Starts %(n)d replicas on pool %(pool)s.", wanted)
        % {"n": wanted, "pool": row.pool.name}
    ]
    expected = progress.expected_start_s(row)
    if expected:
        says.append(_("A start usually takes %(time)s.") % {"time": units.duration(expected)})
    return Dialog(
        _("Start %(name)s") % {"name": row.name}, _("Start"), says, back=_back(row),
        rest=rest.call("POST", f"deployments/{row.name}/start/"),
    )  # fmt: skip


def _scale(row: Deployment, values: Values) -> Dialog:
    value = values.get("replicas") or str(row.replicas_wanted)
    says = [
        _("%(wanted)d replicas are wanted now, %(ready)d are ready.")
        % {"wanted": row.replicas_wanted, "ready": _ready(row)},
        _(
            "More: the new ones start while the others serve. Fewer: the surplus takes nothing new, "
            "ends its running requests and stops."
        ),
    ]
    number = Field("replicas", _("Replicas"), "number", value, minimum=0, maximum=1024, required=True)
    return Dialog(
        _("Scale %(name)s") % {"name": row.name}, _("Scale"), says, [number], back=_back(row),
        rest=rest.call("POST", f"deployments/{row.name}/scale/", {"replicas": int(value) if value.isdigit() else 1}),
    )  # fmt: skip


def _drain(row: Deployment, _values: Values) -> Dialog:
    says = [*_ending(row), _("Nothing new is taken. Running requests have up to an hour, then every replica stops.")]
    return Dialog(
        _("Drain %(name)s") % {"name": row.name}, _("Drain"), says, back=_back(row),
        rest=rest.call("POST", f"deployments/{row.name}/drain/"),
    )  # fmt: skip


def _stop(row: Deployment, _values: Values) -> Dialog:
    says = [*_ending(row), _("Nothing new is taken. Requests that still run after 60 s are ended.")]
    return Dialog(
        _("Stop %(name)s") % {"name": row.name}, _("Stop"), says, back=_back(row), danger=True,
        rest=rest.call("POST", f"deployments/{row.name}/stop/"),
    )  # fmt: skip


def _clone(row: Deployment, values: Values) -> Dialog:
    says = [_("Makes a stopped deployment with the same model, engine and settings under another name.")]
    name = values.get("new_name") or f"{row.name}-copy"
    field = Field(
        "new_name", _("New name"), "text", name, help=_("Lower-case letters, digits and hyphens."), required=True
    )
    return Dialog(
        _("Clone %(name)s") % {"name": row.name}, _("Clone"), says, [field], back=_back(row),
        rest=rest.call("POST", f"deployments/{row.name}/clone/", {"new_name": name}),
    )  # fmt: skip


def _delete(row: Deployment, values: Values) -> Dialog:
    says = [
        *_ending(row),
        _("The deployment, its revisions and the history of its replicas are removed. The journal and the usage stay."),
    ]
    label = _("Type %(name)s to confirm") % {"name": row.name}
    return Dialog(
        _("Delete %(name)s") % {"name": row.name}, _("Delete"), says,
        [Field("typed", label, "text", values.get("typed", ""), required=True)], danger=True, back=_back(row),
        rest=rest.call("DELETE", f"deployments/{row.name}/"),
    )  # fmt: skip


def _do_delete(who: Actor, row: Deployment, values: Values) -> object:
    if values.get("typed", "").strip() != row.name:
        text = _("Type the deployment's name exactly.")
        raise RefusedError("invalid", text, fields={"typed": text})
    return services.delete(actor=who, name=row.name)


def _many_dialog(verb: str, rows: list[Deployment]) -> Dialog:
    titles = {"start": _("Start deployments"), "drain": _("Drain deployments"), "stop": _("Stop deployments")}
    labels = {"start": _("Start"), "drain": _("Drain"), "stop": _("Stop")}
    says = [", ".join(row.name for row in rows)]
    if verb != "start":
        says += _ending(*rows)
    calls = "\n\n".join(rest.call("POST", f"deployments/{row.name}/{verb}/") for row in rows[:20])
    hidden = tuple(("name", row.name) for row in rows)
    return Dialog(
        titles[verb], labels[verb], says, rest=calls, danger=verb == "stop", hidden=hidden, back=reverse("deployments")
    )


def _done(verb: str, number: int) -> str:
    texts = {
        "start": ngettext("%(n)d deployment is starting.", "%(n)d deployments are starting.", number),
        "drain": ngettext("%(n)d deployment is draining.", "%(n)d deployments are draining.", number),
        "stop": ngettext("%(n)d deployment is stopping.", "%(n)d deployments are stopping.", number),
    }
    return texts[verb] % {"n": number}


def _ending(*rows: Deployment) -> list[str]:
    living = Replica.objects.filter(deployment__in=rows, ended_at=None)
    numbers = [value for (value,) in living.values_list("in_flight")]
    if not numbers:
        return [_("No replica runs now.")]
    text = ngettext("Ends %(n)d replica.", "Ends %(n)d replicas.", len(numbers)) % {"n": len(numbers)}
    known = [value for value in numbers if value is not None]
    if not known:
        return [text]
    running = sum(known)
    return [text, ngettext("%(n)d request is running.", "%(n)d requests are running.", running) % {"n": running}]


def _ready(row: Deployment) -> int:
    return selectors.replicas(deployment=row.name, state=ReplicaState.READY).count()


def _back(row: Deployment) -> str:
    return reverse("deployment", args=[row.name])
