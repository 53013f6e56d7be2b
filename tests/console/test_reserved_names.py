"""No object can have a name that is an address of the console."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controlplane.accounts.services import tenants, users
from controlplane.catalog.services.models import ModelWish, VariantWish, apply_model, apply_variant
from controlplane.console.urls import urlpatterns
from controlplane.deployments.services import deployments
from controlplane.domain import names
from controlplane.domain.errors import RefusedError
from controlplane.fleet.services import pools
from tests.deployments.making import ADA, make_deployment, make_variant, make_wish

NAMES = {"<slug:name>", "<str:name>", "<str:variant>", "<str:username>", "<str:tenant>", "<str:replica_id>"}


def test_whatever_stands_where_a_name_can_stand_is_reserved() -> None:
    routes = [str(pattern.pattern).split("/") for pattern in urlpatterns]
    where = {tuple(route[:index]) for route in routes for index, part in enumerate(route) if part in NAMES}
    beside = {
        route[index]
        for route in routes
        for index in range(len(route))
        if tuple(route[:index]) in where and route[index] and not route[index].startswith("<")
    }
    assert beside == names.RESERVED


@pytest.mark.django_db
@pytest.mark.services
@pytest.mark.parametrize(
    "make",
    [
        lambda: deployments.apply(actor=ADA, name="new", wish=make_wish()),
        lambda: deployments.clone(actor=ADA, name=make_deployment("chat").name, new_name="do"),
        lambda: apply_model(actor=ADA, name="new", wish=ModelWish()),
        lambda: apply_variant(actor=ADA, model=make_variant().model.name, name="new", wish=VariantWish(path="/m")),
        lambda: pools.apply(actor=ADA, name="new"),
        lambda: tenants.apply(actor=ADA, name="new"),
        lambda: users.create(actor=ADA, username="new", password="a quiet long river", role="viewer"),
    ],
)
def test_a_reserved_name_is_refused_with_a_sentence(make: Callable[[], object]) -> None:
    with pytest.raises(RefusedError) as refused:
        make()
    assert "is reserved for pages of the console" in str(refused.value.fields)
