"""Variants of a model: one precision each, and where its files are."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.catalog import selectors
from controlplane.catalog.models import Variant
from controlplane.catalog.services import models as services
from controlplane.console import rest
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, plain, seen, whole
from controlplane.console.guard import ASKS, actor, page


@page(roles.OPERATOR, ASKS)
def new(request: HttpRequest, name: str) -> HttpResponse:
    """Adds a variant to a model."""
    selectors.model(name)

    def do(values: Values) -> HttpResponse:
        variant = values.get("name", "").strip()
        services.apply_variant(actor=actor(request), model=name, name=variant, wish=_wish(values), expected_version=0)
        return leave(request, reverse("model", args=[name]), _("The variant was added."))

    return ask(request, lambda values: _dialog(values, name, None), do)


@page(roles.OPERATOR, ASKS)
def edit(request: HttpRequest, name: str, variant: str) -> HttpResponse:
    """Changes where a variant's files are, its precision or its size."""
    row = selectors.variant(name, variant)

    def do(values: Values) -> HttpResponse:
        services.apply_variant(
            actor=actor(request), model=name, name=variant, wish=_wish(values), expected_version=seen(values)
        )
        return leave(request, reverse("model", args=[name]), _("Saved."))

    return ask(request, lambda values: _dialog(values, name, row), do)


@page(roles.OPERATOR, ASKS)
def delete(request: HttpRequest, name: str, variant: str) -> HttpResponse:
    """Removes a variant that no deployment uses."""
    row = selectors.variant(name, variant)
    back = reverse("model", args=[name])

    def do(values: Values) -> HttpResponse:
        services.delete_variant(actor=actor(request), model=name, name=variant, expected_version=seen(values))
        return leave(request, back, _("The variant was removed."))

    dialog = Dialog(
        _("Remove variant %(name)s") % {"name": variant},
        _("Remove"),
        [_used_by(row), _("Files on the nodes stay where they are.")],
        danger=True,
        back=back,
        rest=rest.call("DELETE", f"models/{name}/variants/{variant}/", version=row.version),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def _wish(values: Values) -> services.VariantWish:
    size = values.get("size_bytes", "").strip()
    return services.VariantWish(
        path=values.get("path", "").strip(),
        precision=values.get("precision", "").strip() or "bf16",
        size_bytes=whole(values, "size_bytes") if size else None,
    )


def _dialog(values: Values, model: str, row: Variant | None) -> Dialog:
    size = "" if row is None or row.size_bytes is None else str(row.size_bytes)
    path, precision = (
        values.get("path", row.path if row else ""),
        values.get("precision", row.precision if row else "bf16"),
    )
    fields = [
        Field("precision", _("Precision"), value=precision),
        Field(
            "path",
            _("Files"),
            value=path,
            required=True,
            full=True,
            help=_("A folder that exists on the nodes, or a name that the engine resolves itself."),
        ),
        Field("size_bytes", _("Size"), "number", values.get("size_bytes", size), minimum=1, unit=_("bytes")),
    ]
    if row is None:
        fields.insert(0, Field("name", _("Name"), value=values.get("name", ""), required=True, placeholder="fp8"))
    name, version = (row.name, row.version) if row else (values.get("name") or "NAME", 0)
    body = {
        "path": path or "/models/…",
        "precision": precision or "bf16",
        "size_bytes": plain(values.get("size_bytes", size)),
    }
    says = [_used_by(row), _("Deployments take the new files with their next revision.")] if row else []
    title = _("Edit variant %(name)s") if row else _("Add a variant of %(name)s")
    return Dialog(
        title % {"name": name if row else model},
        _("Save") if row else _("Add"),
        says,
        fields,
        rest.call("PUT", f"models/{model}/variants/{name}/", body, version=version),
        back=reverse("model", args=[model]),
        version=version if row else None,
    )


def _used_by(row: Variant) -> str:
    number = getattr(row, "deployments_total", 0)
    return ngettext("%(n)d deployment uses it.", "%(n)d deployments use it.", number) % {"n": number}
