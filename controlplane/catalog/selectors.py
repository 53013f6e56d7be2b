"""Reading models and variants. Querysets are not evaluated here, so that callers page."""

from __future__ import annotations

from django.db.models import Count, Prefetch, Q, QuerySet

from controlplane.catalog.models import Model, Variant
from controlplane.domain.errors import RefusedError


def models(*, family: str | None = None, search: str | None = None) -> QuerySet[Model]:
    """Returns models with their variants, each of which has `deployments_total`."""
    rows = Model.objects.order_by("name").prefetch_related(Prefetch("variants", queryset=variants()))
    if family:
        rows = rows.filter(family=family)
    if search:
        rows = rows.filter(Q(name__icontains=search) | Q(display_name__icontains=search) | Q(source__icontains=search))
    return rows


def model(name: str) -> Model:
    """Returns one model as `models()` does; raises RefusedError when there is none of this name."""
    found = models().filter(name=name).first()
    if found is None:
        raise RefusedError("no_such_model", f"There is no model {name}.", kind="not_found")
    return found


def variants(*, model: str | None = None) -> QuerySet[Variant]:
    """Returns variants by model and name, each with `deployments_total`."""
    rows = Variant.objects.select_related("model").annotate(
        deployments_total=Count("deployment", filter=Q(deployment__deleted_at=None))
    )
    if model:
        rows = rows.filter(model__name=model)
    return rows.order_by("model__name", "name")


def variant(model: str, name: str) -> Variant:
    """Returns one variant; raises RefusedError when there is none of this address."""
    found = variants(model=model).filter(name=name).first()
    if found is None:
        raise RefusedError("no_such_variant", f"There is no variant {model}/{name}.", kind="not_found")
    return found
