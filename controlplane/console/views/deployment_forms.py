"""Making a deployment and changing one."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.catalog import selectors as catalog
from controlplane.console import deployment_wish, rest, settings_diff, undo
from controlplane.console.dialogs import Field, Values, leave, seen, whole, with_problems
from controlplane.console.guard import ACTS, ASKS, STATUS, actor, page, person
from controlplane.console.undo import Back
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, Engine
from controlplane.deployments.services import checking
from controlplane.deployments.services import deployments as services
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain import labels
from controlplane.domain.errors import RefusedError
from controlplane.fleet import selectors as fleet


@page(roles.OPERATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """The form of a new deployment; what is wrong is said at its field."""
    values = request.POST.dict() if request.method == "POST" else request.GET.dict()
    engine = _engine(values)
    error = None
    if request.method == "POST":
        name = values.get("name", "").strip()
        try:
            wish = deployment_wish.read(engine, values)
            services.apply(actor=actor(request), name=name, wish=wish, expected_version=0)
        except RefusedError as refused:
            error = _name_taken(refused, name)
        else:
            return leave(request, reverse("deployment", args=[name]))
    context = {**_form(engine, values, error), "engines": deployment_wish.engines(), "values": values}
    context["no_variants"] = not catalog.variants().exists()
    context["no_pools"] = not fleet.pools().exists()
    context["name"] = Field(
        "name", _("Name"), "text", values.get("name", ""), required=True,
        help=_("Lower-case letters, digits and hyphens. Clients send it as the model."),
        problem=error.fields.get("name", "") if error else "",
    )  # fmt: skip
    return render(request, "deployments/new.html", context, status=STATUS[error.kind] if error else 200)


@page(roles.OPERATOR)
def engine_fields(request: HttpRequest) -> HttpResponse:
    """The fields of the chosen engine."""
    values = request.GET.dict()
    return render(request, "deployments/fields.html", _form(_engine(values), values, None))


@page(roles.OPERATOR, ACTS)
def preview(request: HttpRequest) -> HttpResponse:
    """The command line and the REST call that the form would make."""
    values = request.POST.dict()
    engine, name = _engine(values), values.get("name", "").strip()
    version = seen(values) or 0  # the form of a new deployment has none
    try:
        wish = deployment_wish.read(engine, values)
        command = services.preview_command(wish)
        ledgers = services.preview_ledgers(wish, name or "preview")
    except RefusedError as error:
        return render(request, "deployments/preview.html", {"problem": error})
    context = {
        "command": shlex.join(command) if command else "",
        "ledgers": ledgers,
        "rest": rest.call("PUT", f"deployments/{name or 'NAME'}/", deployment_wish.as_body(wish), version=version),
    }
    return render(request, "deployments/preview.html", context)


@page(roles.OPERATOR, ASKS)
def edit(request: HttpRequest, name: str) -> HttpResponse:
    """Changes a deployment: the form, then the difference to the running revision, then the new revision."""
    deployment = selectors.deployment(name)
    before = selectors.wish(deployment)
    posted = request.method == "POST"
    values = request.POST.dict() if posted else deployment_wish.filled(before)
    context: dict[str, Any] = {"deployment": deployment, "version": values.get("version", deployment.version)}
    error = None
    if posted:
        try:
            wish = deployment_wish.read(deployment.engine, values, before.desired_state)
            if values.get("step") == "save":
                applied = services.apply(
                    actor=actor(request), name=name, wish=wish, expected_version=whole(values, "version")
                )
                note = _undo(request, before, wish, applied)
                told = _saved(applied, deployment, wish)
                return leave(request, reverse("deployment", args=[name]), told, undo=note)
            if values.get("step") == "review":
                return render(
                    request, "deployment/review.html", {**context, **_review(deployment, before, wish, values)}
                )
        except RefusedError as refused:
            error = refused
    context |= _form(deployment.engine, values, error, has_key=bool(deployment.external_key))
    status = STATUS[error.kind] if error else 200
    return render(request, "deployment/edit.html", context, status=status)


def _engine(values: Values) -> str:
    known = [name for name, _label, _text in deployment_wish.engines()]
    return values.get("engine") if values.get("engine") in known else known[0]  # type: ignore[return-value]


def _form(engine: str, values: Values, error: RefusedError | None, *, has_key: bool = False) -> dict[str, Any]:
    external = engine == Engine.EXTERNAL
    fields = (
        deployment_wish.external_fields(values, has_key=has_key) if external else deployment_wish.place_fields(values)
    )
    settings = with_problems(deployment_wish.setting_fields(engine, values), error)
    note = Field("note", _("Note"), "text", values.get("note", ""), help=_("Why; shown with the revision."), full=True)
    return {
        "engine": engine,
        "place": with_problems(fields, error),
        "settings": settings,
        "settings_open": any(one.value or one.problem for one in settings),
        "note": note,
        "error": error,
        "unplaced": _unplaced(error, [*fields, *settings]),
    }


def _unplaced(error: RefusedError | None, fields: list[Field]) -> list[str]:
    """What is wrong with something that has no field of its own here."""
    names = {"name", *(one.name for one in fields)}
    return [text for name, text in error.fields.items() if name not in names] if error else []


def _review(deployment: Deployment, before: DeploymentWish, wish: DeploymentWish, values: Values) -> dict[str, Any]:
    checked = checking.check(deployment.name, wish)
    old = deployment.revision.spec if deployment.revision else {}
    lines = settings_diff.between(old, checked.spec)
    if before.pool != wish.pool:
        lines.append(settings_diff.Line("pool", _("Pool"), before.pool, wish.pool))
    if before.replicas != wish.replicas:
        lines.append(settings_diff.Line("replicas", _("Replicas"), str(before.replicas), str(wish.replicas)))
    before_labels, after_labels = labels.told(before.node_labels or {}), labels.told(wish.node_labels or {})
    if before_labels != after_labels:
        lines.append(settings_diff.Line("node_labels", _("Labels of nodes"), before_labels, after_labels))
    if wish.external_key:
        lines.append(settings_diff.Line("external_key", _("Key"), _("the stored one"), _("a new one")))
    body = deployment_wish.as_body(wish)
    return {
        "lines": lines,
        "external": deployment.engine == Engine.EXTERNAL,
        "new_revision": deployment.revision is None or deployment.revision.hash != checked.hash,
        "next_number": (deployment.revision.number if deployment.revision else 0) + 1,
        "hidden": [(key, value) for key, value in values.items() if key not in ("step", "csrfmiddlewaretoken")],
        "rest": rest.call("PUT", f"deployments/{deployment.name}/", body, version=deployment.version),
    }


def _undo(request: HttpRequest, before: DeploymentWish, wish: DeploymentWish, applied: services.Applied) -> str:
    """A key of an external endpoint is never read back, so an edit that replaced it can't be undone."""
    if not applied.changed or wish.external_key is not None:
        return ""
    number = applied.deployment.revision.number if applied.deployment.revision else 0
    values = {**asdict(before), "settings": dict(before.settings), "note": _("Undoes revision %(n)d") % {"n": number}}
    return undo.note(person(request), Back("wish", applied.deployment.name, applied.deployment.version, values))


def _saved(applied: services.Applied, before: Deployment, wish: DeploymentWish) -> str:
    if not applied.changed:
        return _("Nothing was different, so nothing was changed.")
    after = applied.deployment
    if after.revision is not None and after.revision_id != before.revision_id:
        return _("Saved. Revision %(n)d is the wanted one.") % {"n": after.revision.number}
    if wish.external_key is not None:
        return _("Saved. The endpoint is asked with the new key.")
    return _("Saved. This needed no new revision.")


def _name_taken(error: RefusedError, name: str) -> RefusedError:
    if error.code != "changed_meanwhile":
        return error
    text = _("There is already a deployment %(name)s.") % {"name": name}
    return RefusedError("name_taken", text, kind="conflict", fields={"name": text})
