"""Models."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.catalog import selectors
from controlplane.catalog.models import Model
from controlplane.catalog.services import models as services
from controlplane.console import rest
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, plain, seen, whole
from controlplane.console.guard import ASKS, actor, is_fragment, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.deployments import selectors as deployments
from controlplane.journal import selectors as journal

_USED = 30  # deployments on a model's page; the list of deployments has all


@page()
def models(request: HttpRequest) -> HttpResponse:
    """All models with their variants and how many deployments use them."""
    params = params_of(request, ("family",))
    rows = selectors.models(family=params.get("family"), search=params.get("q")).annotate(
        deployments_total=Count("variants__deployment", filter=Q(variants__deployment__deleted_at=None))
    )
    table = listing(rows, params, _columns())
    families = [
        family
        for (family,) in Model.objects.exclude(family="").order_by("family").values_list("family").distinct()[:12]
    ]
    if len(families) > 1:
        choices = [("", _("All families"), None), *((family, family, None) for family in sorted(families))]
        table.add_chips(_("Family"), "family", choices)
    return render(request, "models/table.html" if is_fragment(request) else "models/list.html", {"table": table})


@page()
def model(request: HttpRequest, name: str) -> HttpResponse:
    """One model: facts, variants, and where it is used."""
    row = selectors.model(name)
    used = list(deployments.deployments().filter(variant__model=row)[: _USED + 1])
    context = {
        "model": row,
        "variants": list(row.variants.all()),
        "used": used[:_USED],
        "more_used": len(used) > _USED,
        "events": journal.events(of_model=name)[:8],
        "facts": sorted(row.architecture.items()),
    }
    return render(request, "models/detail.html", context)


@page(roles.OPERATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """Adds a model."""

    def do(values: Values) -> HttpResponse:
        name = values.get("name", "").strip()
        services.apply_model(actor=actor(request), name=name, wish=_wish(values), expected_version=0)
        return leave(request, reverse("model", args=[name]))

    return ask(request, lambda values: _model_dialog(values, None), do)


@page(roles.OPERATOR, ASKS)
def edit(request: HttpRequest, name: str) -> HttpResponse:
    """Changes what is known of a model."""
    row = selectors.model(name)

    def do(values: Values) -> HttpResponse:
        wish = _wish(values, row.architecture)
        services.apply_model(actor=actor(request), name=name, wish=wish, expected_version=seen(values))
        return leave(request, reverse("model", args=[name]), _("Saved."))

    return ask(request, lambda values: _model_dialog(values, row), do)


@page(roles.OPERATOR, ASKS)
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Removes a model that no deployment uses."""
    row = selectors.model(name)

    def do(values: Values) -> HttpResponse:
        services.delete_model(actor=actor(request), name=name, expected_version=seen(values))
        return leave(request, reverse("models"), _("Model %(name)s was removed.") % {"name": name})

    number = len(row.variants.all())
    says = [
        ngettext("Removes the model and its %(n)d variant.", "Removes the model and its %(n)d variants.", number)
        % {"n": number},
        _("Files on the nodes stay where they are."),
    ]
    dialog = Dialog(
        _("Remove %(name)s") % {"name": name},
        _("Remove"),
        says,
        danger=True,
        back=reverse("model", args=[name]),
        rest=rest.call("DELETE", f"models/{name}/", version=row.version),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def _columns() -> list[Column]:
    return [
        Column(_("Model"), "name"),
        Column(_("Family"), "family"),
        Column(_("Parameters"), "parameters", "num"),
        Column(_("Context"), "context_length_tokens", "num", _("tokens")),
        Column(_("Variants")),
        Column(_("Licence"), "licence", "at-l"),
        Column(_("Deployments"), "deployments_total", "num"),
    ]


def _wish(values: Values, architecture: Any = None) -> services.ModelWish:
    numbers = {
        name: whole(values, name) if values.get(name, "").strip() else None
        for name in ("parameters", "context_length_tokens")
    }
    return services.ModelWish(
        display_name=values.get("display_name", "").strip(),
        family=values.get("family", "").strip(),
        licence=values.get("licence", "").strip(),
        source=values.get("source", "").strip(),
        architecture=architecture or {},
        **numbers,
    )


def _model_dialog(values: Values, row: Model | None) -> Dialog:
    def value(name: str) -> str:
        known = getattr(row, name, "") if row else ""
        return values.get(name, "" if known is None else str(known))

    fields = [
        Field("display_name", _("Display name"), value=value("display_name")),
        Field("family", _("Family"), value=value("family"), placeholder="llama"),
        Field("parameters", _("Parameters"), "number", value("parameters"), minimum=1),
        Field(
            "context_length_tokens",
            _("Context length"),
            "number",
            value("context_length_tokens"),
            minimum=1,
            unit=_("tokens"),
        ),
        Field("licence", _("Licence"), value=value("licence"), placeholder="Apache-2.0"),
        Field("source", _("Source"), value=value("source"), full=True),
    ]
    if row is None:
        fields.insert(0, Field("name", _("Name"), value=value("name"), required=True, full=True))
    name = row.name if row else values.get("name") or "NAME"
    body: dict[str, object] = {field.name: field.value for field in fields if field.name != "name"}
    body |= {number: plain(value(number)) for number in ("parameters", "context_length_tokens")}
    if row is not None and row.architecture:
        body["architecture"] = row.architecture
    version = row.version if row else 0
    return Dialog(
        _("Edit %(name)s") % {"name": row.name} if row else _("Add a model"),
        _("Save") if row else _("Add"),
        fields=fields,
        version=version if row else None,
        rest=rest.call("PUT", f"models/{name}/", body, version=version),
        back=reverse("model", args=[row.name]) if row else reverse("models"),
    )
