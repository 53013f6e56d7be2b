"""Models and their variants: made, changed and removed. What a deployment uses can't be removed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import ProtectedError

from controlplane.catalog.models import Model, Variant
from controlplane.domain import names
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ModelWish:
    """What is known of a model. None = not known."""

    display_name: str = ""  # empty = the name
    family: str = ""
    parameters: int | None = None
    context_length_tokens: int | None = None
    licence: str = ""
    source: str = ""
    architecture: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VariantWish:
    """One precision of a model: a folder on the nodes, or a name that the engine resolves itself."""

    path: str
    precision: str = "bf16"
    size_bytes: int | None = None


@transaction.atomic
def apply_model(*, actor: Actor, name: str, wish: ModelWish, expected_version: int | None = None) -> Applied[Model]:
    """Makes a model be as given; the same again changes nothing. `expected_version` 0 = it must not exist yet."""
    _refuse({**_name_problem(name, 100), **_model_problems(wish)})
    applied = versioned.apply(
        Model.objects.all(),
        address={"name": name},
        values={
            "display_name": wish.display_name or name,
            "family": wish.family,
            "parameters": wish.parameters,
            "context_length_tokens": wish.context_length_tokens,
            "licence": wish.licence,
            "source": wish.source,
            "architecture": dict(wish.architecture),
        },
        object_kind="model",
        object_id=name,
        expected_version=expected_version,
    )
    _tell_applied(actor, name, "model", applied)
    return applied


@transaction.atomic
def apply_variant(
    *, actor: Actor, model: str, name: str, wish: VariantWish, expected_version: int | None = None
) -> Applied[Variant]:
    """Makes a variant be as given; deployments that use it take a new path with their next revision."""
    _refuse({**_name_problem(name, 63), **_variant_problems(wish)})
    owner = _locked(model)
    address = f"{model}/{name}"
    applied = versioned.apply(
        Variant.objects.all(),
        address={"model": owner, "name": name},
        values={"path": wish.path, "precision": wish.precision, "size_bytes": wish.size_bytes},
        object_kind="variant",
        object_id=address,
        expected_version=expected_version,
    )
    _tell_applied(actor, address, "variant", applied)
    return applied


@transaction.atomic
def delete_model(*, actor: Actor, name: str, expected_version: int | None = None) -> None:
    """Removes a model with its variants; refuses, naming the deployments, while one of them uses it."""
    model = _locked(name)
    versioned.check(object_kind="model", object_id=name, version=model.version, expected_version=expected_version)
    _remove(model.variants.all(), f"Model {name}")
    model.delete()
    _tell(actor, name, "model.deleted", f"Model {name} was removed.", "warning")


@transaction.atomic
def delete_variant(*, actor: Actor, model: str, name: str, expected_version: int | None = None) -> None:
    """Removes a variant; refuses, naming the deployments, while one of them uses it."""
    address = f"{model}/{name}"
    variant = Variant.objects.select_for_update(of=("self",)).filter(model__name=model, name=name).first()
    if variant is None:
        raise RefusedError("no_such_variant", f"There is no variant {address}.", kind="not_found")
    versioned.check(
        object_kind="variant", object_id=address, version=variant.version, expected_version=expected_version
    )
    _remove(Variant.objects.filter(pk=variant.pk), f"Variant {address}")
    _tell(actor, address, "variant.deleted", f"Variant {address} was removed.", "warning")


def _locked(name: str) -> Model:
    model = Model.objects.select_for_update().filter(name=name).first()
    if model is None:
        raise RefusedError("no_such_model", f"There is no model {name}.", kind="not_found")
    return model


def _remove(variants: Any, what: str) -> None:
    try:
        variants.delete()
    except ProtectedError as error:
        users = sorted({str(row) for row in error.protected_objects})
        raise RefusedError(
            "model_in_use",
            f"{what} is used by {', '.join(users)}.",
            kind="conflict",
            hint="Delete these deployments, or let them use another variant.",
            fields={"deployments": ", ".join(users)},
        ) from None


def _name_problem(name: str, longest: int) -> dict[str, str]:
    if _NAME.fullmatch(name) and len(name) <= longest:
        return {"name": names.reserved(name)} if names.reserved(name) else {}
    return {"name": f"Use letters, digits and . _ -, at most {longest}, starting with a letter or digit."}


def _model_problems(wish: ModelWish) -> dict[str, str]:
    problems = _too_long(wish, {"display_name": 200, "family": 64, "licence": 64, "source": 300})
    if wish.parameters is not None and not 0 < wish.parameters <= _LARGEST:
        problems["parameters"] = "Give the number of parameters, above 0."
    if wish.context_length_tokens is not None and not 0 < wish.context_length_tokens < 2**31:
        problems["context_length_tokens"] = "Give a number of tokens above 0."
    return problems


def _variant_problems(wish: VariantWish) -> dict[str, str]:
    problems = _too_long(wish, {"path": 500, "precision": 32})
    if not wish.path.strip():
        problems["path"] = "Give a folder on the nodes, or a name that the engine resolves."
    if wish.path.startswith("-"):
        problems["path"] = "A path can't start with a hyphen: an engine would take it for an option."
    if wish.size_bytes is not None and not 0 <= wish.size_bytes <= _LARGEST:
        problems["size_bytes"] = "Give a number of bytes."
    return problems


def _too_long(wish: object, limits: Mapping[str, int]) -> dict[str, str]:
    return {
        name: f"Use at most {limit} characters." for name, limit in limits.items() if len(getattr(wish, name)) > limit
    }


def _refuse(problems: Mapping[str, str]) -> None:
    if problems:
        raise RefusedError("invalid", next(iter(problems.values())), fields=problems)


def _tell_applied(actor: Actor, address: str, kind: str, applied: Applied[Any]) -> None:
    if applied.created:
        _tell(actor, address, f"{kind}.created", f"{kind.capitalize()} {address} was made.")
    elif applied.changed:
        what = ", ".join(applied.fields)
        _tell(actor, address, f"{kind}.changed", f"{kind.capitalize()} {address} was changed: {what}.")


def _tell(actor: Actor, address: str, verb: str, message: str, level: str = "info") -> None:
    record.event(
        actor=actor,
        verb=verb,
        object_kind=verb.partition(".")[0],  # model | variant: the object's kind is the family of the verb
        object_id=address,
        object_name=address,
        message=message,
        level=level,
    )
