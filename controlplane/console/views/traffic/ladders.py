"""Degradation ladders: what a deployment does less well, step by step, while it is saturated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.console import ladder_steps, rest, rule_undo, traffic_words
from controlplane.console.dialogs import Dialog, Field, Values, ask, or_else, pick, plain, seen, whole
from controlplane.console.guard import ACTS, ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.traffic.common import deployment_names, done, now, show
from controlplane.deployments.models import Deployment
from controlplane.domain import degradation
from controlplane.domain.degradation import CAP_TOKENS, KINDS, RAISE_AFTER_S, Step
from controlplane.domain.errors import RefusedError
from controlplane.journal import selectors as journal
from controlplane.lib import wire
from controlplane.traffic import owners, rule_selectors
from controlplane.traffic.models import Ladder
from controlplane.traffic.services import ladders as services


@page()
def ladders(request: HttpRequest) -> HttpResponse:
    """All deployments with their ladders."""
    params = params_of(request, ("with",))
    rows: QuerySet[Deployment] = Deployment.objects.filter(deleted_at=None).select_related("ladder").order_by("name")
    if params.get("with") == "steps":
        rows = rows.filter(ladder__isnull=False)
    if "q" in params:
        rows = rows.filter(name__icontains=params["q"])
    columns = [Column(_("Deployment"), "name"), Column(_("Steps, the first one first")), Column(_("Now"))]
    table = listing(rows, params, columns)
    table.add_chips(_("Which"), "with", [("", _("All"), None), ("steps", _("With steps"), None)])
    return show(request, "ladders", table, "ladder", live=now())


@page()
def ladder(request: HttpRequest, deployment: str) -> HttpResponse:
    """The steps of one deployment's ladder."""
    owner = owners.deployment(deployment)
    row = _row(deployment)
    context = {
        "tab": "ladders",
        "deployment": owner,
        "ladder": row,
        "steps": row.steps if row else [],
        "state": now().get(deployment),
        "rest": rest.call(
            "PUT",
            f"deployments/{deployment}/ladder/",
            {"steps": [ladder_steps.plain(one) for one in _steps(row)]},
            version=_version(row),
        ),
        "events": journal.events(object_kind="ladder", object_id=deployment)[:5],
        "kind": "ladder",
    }
    return render(request, "traffic/ladder.html", context)


@page(roles.OPERATOR, ASKS)
def add(request: HttpRequest, deployment: str) -> HttpResponse:
    """Adds a step at the end."""
    row = _row(deployment)
    steps = _steps(row)

    def do(values: Values) -> HttpResponse:
        return _apply(request, deployment, row, [*steps, _read(values)], expected=seen(values), place=len(steps))

    def build(values: Values) -> Dialog:
        step = _told(values, Step("cap_tokens"))
        title = _("New step of %(name)s") % {"name": deployment}
        texts = (title, _("Add"))
        return _dialog(deployment, row, texts, values, steps=[*steps, step], step=step)

    return ask(request, build, do)


@page(roles.OPERATOR, ASKS)
def edit(request: HttpRequest, deployment: str, place: int) -> HttpResponse:
    """Changes a step. Places count from 1."""
    row = _row(deployment)
    steps = _steps(row)
    _check(deployment, steps, place)

    def changed(step: Step) -> list[Step]:
        return [*steps[: place - 1], step, *steps[place:]]

    def do(values: Values) -> HttpResponse:
        return _apply(request, deployment, row, changed(_read(values)), expected=seen(values), place=place - 1)

    def build(values: Values) -> Dialog:
        step = _told(values, steps[place - 1])
        title = _("Step %(n)d of %(name)s") % {"n": place, "name": deployment}
        texts = (title, _("Save"))
        return _dialog(deployment, row, texts, values, steps=changed(step), step=step)

    return ask(request, build, do)


@page(roles.OPERATOR, ACTS)
def move(request: HttpRequest, deployment: str, place: int, verb: str) -> HttpResponse:
    """Moves a step up or down, or removes it; each can be undone."""
    row = _row(deployment)
    steps = _steps(row)
    _check(deployment, steps, place)
    if verb not in ("up", "down", "remove"):
        raise RefusedError("no_such_verb", f"A step can't be told to {verb}.", kind="not_found")
    step = steps.pop(place - 1)
    if verb != "remove":
        steps.insert(max(0, place - 2) if verb == "up" else place, step)
    return _apply(request, deployment, row, steps, expected=whole(request.POST.dict(), "version"), place=place - 1)


@page(roles.OPERATOR, ASKS)
def delete(request: HttpRequest, deployment: str) -> HttpResponse:
    """Removes the ladder."""
    row = rule_selectors.ladder(deployment)
    url = reverse("ladder", args=[deployment])

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), deployment=deployment, expected_version=seen(values))
        back = rule_undo.gone("ladder", deployment, {"steps": row.steps}, deployment=deployment)
        return done(request, url, _("The ladder was removed."), back)

    dialog = Dialog(
        _("Remove the ladder of %(name)s") % {"name": deployment},
        _("Remove"),
        [*(ladder_steps.told(step) for step in row.steps), _("Then it never degrades: requests wait and are refused.")],
        rest=rest.call("DELETE", f"deployments/{deployment}/ladder/", version=row.version),
        danger=True,
        back=url,
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def _apply(
    request: HttpRequest,
    deployment: str,
    row: Ladder | None,
    steps: Sequence[Step],
    *,
    expected: int | None,
    place: int,
) -> HttpResponse:
    wish = degradation.Ladder(tuple(steps))
    try:
        applied = services.apply(actor=actor(request), deployment=deployment, wish=wish, expected_version=expected)
    except RefusedError as error:
        raise _at_its_field(error, place) from None
    back = rule_undo.back("ladder", deployment, applied, {"steps": row.steps} if row else None, deployment=deployment)
    return done(request, reverse("ladder", args=[deployment]), _("Saved. Gateways follow within seconds."), back)


def _at_its_field(error: RefusedError, place: int) -> RefusedError:
    """What is wrong with the step that is edited is said at the fields of the form."""
    start = f"steps.{place}."
    fields = {name.removeprefix(start): text for name, text in error.fields.items()}
    return RefusedError(error.code, error.message, kind=error.kind, hint=error.hint, fields=fields)


def _dialog(
    deployment: str, row: Ladder | None, texts: tuple[str, str], values: Values, *, steps: Sequence[Step], step: Step
) -> Dialog:
    kinds = tuple((kind, _kind(kind)) for kind in KINDS)
    checks = [
        Field(
            f"tier.{name}",
            _("For the tier %(tier)s") % {"tier": traffic_words.tier(name)},
            "check",
            "on" if name in step.tiers else "",
        )
        for name in owners.TIERS
    ]
    fields = [
        Field("kind", _("What is done"), "select", step.kind, choices=kinds, required=True, full=True, asks_more=True),
        *(_fields_of(step, values, [name for name in deployment_names() if name != deployment])),
        *checks,
    ]
    body = {"steps": [ladder_steps.plain(one) for one in steps]}
    return Dialog(
        *texts, _says(step), fields,
        rest.call("PUT", f"deployments/{deployment}/ladder/", body, version=_version(row)),
        back=reverse("ladder", args=[deployment]), version=_version(row),
    )  # fmt: skip


def _says(step: Step) -> list[str]:
    said = [
        _("Steps are climbed one after the other while the deployment is saturated, and left when the load is lower."),
        _("A client that opts out of worse answers waits or is refused instead. No tier ticked = all tiers."),
    ]
    if step.kind == "shed":
        shed = _(
            "Requests of the lightest tier are refused first, those of one more every %(s)d s while it is not enough."
        )
        said.append(shed % {"s": RAISE_AFTER_S})
    return said


def _fields_of(step: Step, values: Values, others: Sequence[str]) -> list[Field]:
    """What only a step of this kind has."""
    if degradation.uses(step.kind, "max_tokens"):
        text, told = values.get("max_tokens", str(step.max_tokens)), _("Of a shorter answer. For example 512.")
        return [
            Field("max_tokens", _("Most output tokens"), "number", text, told, minimum=1, maximum=10_000_000, full=True)
        ]
    if degradation.uses(step.kind, "deployment"):
        return [replace(pick("deployment", _("Requests go to"), step.deployment, others, every="–"), full=True)]
    return []


def _kind(kind: str) -> str:
    texts = {
        "cap_tokens": _("Shorter answers: at most so many output tokens"),
        "divert": _("Another deployment answers, such as one of a smaller model"),
        "shed": _("Requests are refused"),
    }
    return texts.get(kind, kind)


def _told(values: Values, step: Step) -> Step:
    """The step as the form has it, for showing; before anything was sent, as it is."""
    if "kind" not in values:
        return step
    return Step(
        values["kind"], _ticked(values), or_else(values.get("max_tokens", ""), CAP_TOKENS), values.get("deployment", "")
    )


def _read(values: Values) -> Step:
    """The step that is wished for; fields of other kinds, which the form may still have had, count for nothing."""
    kind, tiers = values.get("kind", ""), _ticked(values)
    if degradation.uses(kind, "deployment"):
        return Step(kind, tiers, deployment=values.get("deployment", "").strip())
    if not degradation.uses(kind, "max_tokens"):
        return Step(kind, tiers)
    if not isinstance(plain(values.get("max_tokens", "") or str(CAP_TOKENS)), int):
        whole(values, "max_tokens")  # says at the field what is right
    return Step(kind, tiers, whole(values, "max_tokens", CAP_TOKENS))


def _ticked(values: Values) -> tuple[str, ...]:
    return tuple(name for name in owners.TIERS if values.get(f"tier.{name}") == "on")


def _row(deployment: str) -> Ladder | None:
    owners.deployment(deployment)
    return rule_selectors.ladders().filter(deployment__name=deployment).first()


def _steps(row: Ladder | None) -> list[Step]:
    return [wire.from_plain(one, Step) for one in row.steps] if row else []


def _version(row: Ladder | None) -> int:
    return row.version if row else 0


def _check(deployment: str, steps: Sequence[Any], place: int) -> None:
    if not 1 <= place <= len(steps):
        raise RefusedError("no_such_step", f"The ladder of {deployment} has no step {place}.", kind="not_found")
