"""What can be done to one deployment: each dialog says in numbers what will happen, then shows the progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.console import progress, rest, undo, units
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, or_else, seen, whole
from controlplane.console.guard import ASKS, actor, page, person
from controlplane.console.undo import Back
from controlplane.console.views.deployments_actions import done, ending
from controlplane.console.views.progress import begun, of_deployment
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, Engine, ReplicaState
from controlplane.deployments.services import deployments as services
from controlplane.domain.errors import RefusedError
from controlplane.journal.services.record import Actor


@dataclass(frozen=True, slots=True)
class Verb:
    """One action: what its dialog says, what it does, and what takes it back (from the row before and after)."""

    dialog: Callable[[Deployment, Values], Dialog]
    do: Callable[[Actor, Deployment, Values], Deployment]
    back: Callable[[Deployment, Deployment], Back] | None = None


@page(roles.OPERATOR, ASKS)
def one(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """The dialog of one action on one deployment."""
    known = _verb(verb)
    deployment = selectors.deployment(name)

    def do(values: Values) -> HttpResponse:
        after = known.do(actor(request), deployment, values)
        note = ""
        if known.back is not None and after.version != deployment.version:
            note = undo.note(person(request), known.back(deployment, after))
        if verb in ("clone", "freeze", "unfreeze"):
            return leave(request, reverse("deployment", args=[after.name]), done(verb, 1), undo=note)
        return begun(request, of_deployment(name), done(verb, 1), note=note)

    return ask(request, lambda values: known.dialog(deployment, values), do)


def _verb(name: str) -> Verb:
    verbs = {
        "start": Verb(
            _start,
            lambda who, row, v: services.start(actor=who, name=row.name, expected_version=seen(v)),
            _desired_back,
        ),
        "scale": Verb(_scale, _do_scale, _scale_back),
        "drain": Verb(
            _drain,
            lambda who, row, v: services.drain(actor=who, name=row.name, expected_version=seen(v)),
            _desired_back,
        ),
        "stop": Verb(
            _stop, lambda who, row, v: services.stop(actor=who, name=row.name, expected_version=seen(v)), _desired_back
        ),
        "freeze": Verb(_freeze, _do_freeze(frozen=True), _frozen_back),
        "unfreeze": Verb(_unfreeze, _do_freeze(frozen=False), _frozen_back),
        "clone": Verb(_clone, _do_clone),
        "delete": Verb(_delete, _do_delete),
    }
    if name not in verbs:
        raise RefusedError("no_such_action", _("There is no action %(verb)s.") % {"verb": name}, kind="not_found")
    return verbs[name]


def _do(service: Callable[..., Deployment]) -> Callable[[Actor, Deployment, Values], Deployment]:
    return lambda who, row, values: service(actor=who, name=row.name, expected_version=seen(values))


def _start(row: Deployment, _values: Values) -> Dialog:
    if row.engine == Engine.EXTERNAL:
        says = [_("The endpoint is asked whether it answers, and then gets requests. Headworks does not start it.")]
        return _dialog(row, "start", _("Start %(name)s"), _("Start"), says)
    wanted = row.replicas_wanted
    says = [
        ngettext("Starts %(n)d replica on pool %(pool)s.", "Starts %(n)d replicas on pool %(pool)s.", wanted)
        % {"n": wanted, "pool": row.pool.name}
    ]
    expected = progress.expected_start_s(row)
    if expected:
        says.append(_("A start usually takes %(time)s.") % {"time": units.duration(expected)})
    return _dialog(row, "start", _("Start %(name)s"), _("Start"), says)


def _scale(row: Deployment, values: Values) -> Dialog:
    value = values.get("replicas") or str(row.replicas_wanted)
    says = [
        _("Wanted now: %(wanted)d. Ready: %(ready)d.") % {"wanted": row.replicas_wanted, "ready": _ready(row)},
        _(
            "More: the new ones start while the others serve. Fewer: the surplus takes nothing new, "
            "ends its running requests and stops."
        ),
    ]
    number = Field("replicas", _("Replicas"), "number", value, minimum=0, maximum=1024, required=True)
    body = {"replicas": or_else(value, row.replicas_wanted)}
    return _dialog(row, "scale", _("Scale %(name)s"), _("Scale"), says, fields=[number], body=body)


def _do_scale(who: Actor, row: Deployment, values: Values) -> Deployment:
    return services.scale(actor=who, name=row.name, replicas=whole(values, "replicas"), expected_version=seen(values))


def _drain(row: Deployment, _values: Values) -> Dialog:
    says = ending([row])
    if row.engine != Engine.EXTERNAL:
        says.append(_("Nothing new is taken. Running requests have up to an hour, then every replica stops."))
    return _dialog(row, "drain", _("Drain %(name)s"), _("Drain"), says)


def _stop(row: Deployment, _values: Values) -> Dialog:
    says = ending([row])
    if row.engine != Engine.EXTERNAL:
        says.append(_("Nothing new is taken. Requests that still run after 60 s are ended."))
    return _dialog(row, "stop", _("Stop %(name)s"), _("Stop"), says, danger=True)


def _freeze(row: Deployment, _values: Values) -> Dialog:
    says = [
        _("Replicas ready: %(ready)d of %(wanted)d. They serve on as they are.")
        % {"ready": _ready(row), "wanted": row.replicas_wanted},
        _("Nothing is placed, replaced or ended by itself until it is unfrozen; an engine that dies is started again."),
        _("Seats and the steps of its ladder stay where they are; its queues and limits hold as before."),
    ]
    if row.engine == Engine.EXTERNAL:
        says = [_("Nothing changes at an endpoint by itself. Whether it answers is asked on, frozen or not.")]
    return _dialog(row, "freeze", _("Freeze %(name)s"), _("Freeze"), says)


def _unfreeze(row: Deployment, _values: Values) -> Dialog:
    says = [
        progress.replicas_ready(_ready(row), row.replicas_wanted),
        _("The system makes what is wanted true again, beginning now."),
    ]
    if row.engine == Engine.EXTERNAL:
        says = says[1:]
    return _dialog(row, "unfreeze", _("Unfreeze %(name)s"), _("Unfreeze"), says)


def _do_freeze(*, frozen: bool) -> Callable[[Actor, Deployment, Values], Deployment]:
    return lambda who, row, values: services.set_frozen(
        actor=who, name=row.name, frozen=frozen, expected_version=seen(values)
    )


def _clone(row: Deployment, values: Values) -> Dialog:
    says = [_("Makes a stopped deployment with the same model, engine and settings under another name.")]
    if row.engine == Engine.EXTERNAL:
        says = [_("Makes a stopped deployment of the same endpoint, with its model and key, under another name.")]
    name = values.get("new_name") or f"{row.name}-copy"
    field = Field(
        "new_name", _("New name"), "text", name, help=_("Lower-case letters, digits and hyphens."), required=True
    )
    return _dialog(row, "clone", _("Clone %(name)s"), _("Clone"), says, fields=[field], body={"new_name": name})


def _do_clone(who: Actor, row: Deployment, values: Values) -> Deployment:
    new_name = values.get("new_name", "").strip()
    return services.clone(actor=who, name=row.name, new_name=new_name, expected_version=seen(values))


def _delete(row: Deployment, values: Values) -> Dialog:
    says = [
        *ending([row]),
        _("The deployment, its revisions and the history of its replicas are removed. The journal and the usage stay."),
    ]
    if row.engine == Engine.EXTERNAL:
        says[-1] = _("The deployment, its revisions and its history are removed here. The journal and the usage stay.")
    label = _("Type %(name)s to confirm") % {"name": row.name}
    return Dialog(
        _("Delete %(name)s") % {"name": row.name}, _("Delete"), says,
        [Field("typed", label, "text", values.get("typed", ""), required=True)], danger=True, back=_page_of(row),
        rest=rest.call("DELETE", f"deployments/{row.name}/", version=row.version), version=row.version,
    )  # fmt: skip


def _do_delete(who: Actor, row: Deployment, values: Values) -> Deployment:
    if values.get("typed", "").strip() != row.name:
        text = _("Type the deployment's name exactly.")
        raise RefusedError("invalid", text, fields={"typed": text})
    return services.delete(actor=who, name=row.name, expected_version=seen(values))


def _dialog(
    row: Deployment,
    verb: str,
    title: str,
    confirm: str,
    says: list[str],
    *,
    fields: list[Field] | None = None,
    body: Mapping[str, object] | None = None,
    danger: bool = False,
) -> Dialog:
    call = rest.call("POST", f"deployments/{row.name}/{verb}/", body, version=row.version)
    return Dialog(
        title % {"name": row.name}, confirm, says, fields or [], call, danger, _page_of(row), version=row.version
    )


def _desired_back(before: Deployment, after: Deployment) -> Back:
    return Back("desired", before.name, after.version, {"state": before.desired_state})


def _scale_back(before: Deployment, after: Deployment) -> Back:
    return Back("scale", before.name, after.version, {"replicas": before.replicas_wanted})


def _frozen_back(before: Deployment, after: Deployment) -> Back:
    return Back("frozen", before.name, after.version, {"frozen": before.frozen})


def _ready(row: Deployment) -> int:
    return selectors.replicas(deployment=row.name, state=ReplicaState.READY).count()


def _page_of(row: Deployment) -> str:
    return reverse("deployment", args=[row.name])
