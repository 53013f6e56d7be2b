"""Models and their variants."""

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
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, whole
from controlplane.console.guard import actor, is_fragment, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.deployments import selectors as deployments
from controlplane.journal import selectors as journal


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
    used = list(deployments.deployments().filter(variant__model=row))
    context = {
        "model": row,
        "variants": list(row.variants.all()),
        "used": used,
        "events": journal.events(object_kind="model", object_id=name)[:8],
        "facts": sorted(row.architecture.items()),
    }
    return render(request, "models/detail.html", context)


@page(roles.OPERATOR)
def new(request: HttpRequest) -> HttpResponse:
    """Adds a model."""

    def do(values: Values) -> HttpResponse:
        name = values.get("name", "").strip()
        services.apply_model(actor=actor(request), name=name, wish=_wish(values), expected_version=0)
        return leave(request, reverse("model", args=[name]))

    return ask(request, lambda values: _model_dialog(values, None), do)


@page(roles.OPERATOR)
def edit(request: HttpRequest, name: str) -> HttpResponse:
    """Changes what is known of a model."""
    row = selectors.model(name)

    def do(values: Values) -> HttpResponse:
        wish = _wish(values, row.architecture)
        services.apply_model(
            actor=actor(request), name=name, wish=wish, expected_version=whole(values, "version", row.version)
        )
        return leave(request, reverse("model", args=[name]), _("Saved."))

    return ask(request, lambda values: _model_dialog(values, row), do)


@page(roles.OPERATOR)
def new_variant(request: HttpRequest, name: str) -> HttpResponse:
    """Adds a variant to a model."""
    row = selectors.model(name)

    def do(values: Values) -> HttpResponse:
        size = values.get("size_bytes", "").strip()
        wish = services.VariantWish(
            path=values.get("path", "").strip(),
            precision=values.get("precision", "").strip() or "bf16",
            size_bytes=whole(values, "size_bytes") if size else None,
        )
        services.apply_variant(
            actor=actor(request), model=name, name=values.get("name", "").strip(), wish=wish, expected_version=0
        )
        return leave(request, reverse("model", args=[name]), _("The variant was added."))

    return ask(request, lambda values: _variant_dialog(values, row), do)


@page(roles.OPERATOR)
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Removes a model that no deployment uses."""
    row = selectors.model(name)

    def do(_values: Values) -> HttpResponse:
        services.delete_model(actor=actor(request), name=name)
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
        rest=rest.call("DELETE", f"models/{name}/"),
    )
    return ask(request, lambda _values: dialog, do)


@page(roles.OPERATOR)
def delete_variant(request: HttpRequest, name: str, variant: str) -> HttpResponse:
    """Removes a variant that no deployment uses."""
    selectors.variant(name, variant)
    back = reverse("model", args=[name])

    def do(_values: Values) -> HttpResponse:
        services.delete_variant(actor=actor(request), model=name, name=variant)
        return leave(request, back, _("The variant was removed."))

    dialog = Dialog(
        _("Remove variant %(name)s") % {"name": variant},
        _("Remove"),
        [_("Files on the nodes stay where they are.")],
        danger=True,
        back=back,
        rest=rest.call("DELETE", f"models/{name}/variants/{variant}/"),
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
    body = {field.name: _plain(field) for field in fields if field.name != "name" and field.value}
    return Dialog(
        _("Edit %(name)s") % {"name": row.name} if row else _("Add a model"),
        _("Save") if row else _("Add"),
        fields=fields,
        hidden=(("version", str(row.version)),) if row else (),
        rest=rest.call("PUT", f"models/{name}/", body),
        back=reverse("model", args=[row.name]) if row else reverse("models"),
    )


def _plain(field: Field) -> str | int:
    return int(field.value) if field.kind == "number" and field.value.isdigit() else field.value


def _variant_dialog(values: Values, row: Model) -> Dialog:
    fields = [
        Field("name", _("Name"), value=values.get("name", ""), required=True, placeholder="fp8"),
        Field("precision", _("Precision"), value=values.get("precision", "bf16")),
        Field(
            "path",
            _("Files"),
            value=values.get("path", ""),
            required=True,
            full=True,
            help=_("A folder that exists on the nodes, or a name that the engine resolves itself."),
        ),
        Field("size_bytes", _("Size"), "number", values.get("size_bytes", ""), minimum=1, unit=_("bytes")),
    ]
    name = values.get("name") or "NAME"
    body = {"path": values.get("path") or "/models/…", "precision": values.get("precision") or "bf16"}
    return Dialog(
        _("Add a variant of %(name)s") % {"name": row.name},
        _("Add"),
        fields=fields,
        back=reverse("model", args=[row.name]),
        rest=rest.call("PUT", f"models/{row.name}/variants/{name}/", body),
    )
