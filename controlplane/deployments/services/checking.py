"""Whether a wish can be carried out, and the engine-independent spec that follows from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.catalog.models import Variant
from controlplane.deployments.models import DesiredState, Engine
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain import labels, names
from controlplane.domain.desired import EngineSpec, attention_copies
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Pool
from engine_adapters import registry
from engine_adapters.external import settings as external

MAX_REPLICAS = 1024
MAX_ACCELERATORS = 64
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Checked:
    """A wish that can be carried out. `spec` is what a revision keeps, `hash` tells two specs apart."""

    variant: Variant | None
    pool: Pool
    spec: Mapping[str, Any]
    hash: str


def check(name: str, wish: DeploymentWish) -> Checked:
    """Returns the checked wish; raises RefusedError that names every field that is wrong."""
    problems: dict[str, str] = {}
    if not _NAME.fullmatch(name):
        problems["name"] = "Use lower-case letters, digits and hyphens, at most 63, a letter or digit at both ends."
    elif names.reserved(name):
        problems["name"] = names.reserved(name)
    pool = Pool.objects.filter(name=wish.pool).first()
    if pool is None:
        problems["pool"] = f"There is no pool {wish.pool}."
    if wish.desired_state not in DesiredState.values:
        problems["desired_state"] = f"Use one of {', '.join(DesiredState.values)}."
    wrong_labels = labels.problem(wish.node_labels or {})
    if wrong_labels:
        problems["node_labels"] = wrong_labels
    variant: Variant | None = None
    if wish.engine not in Engine.values:
        problems["engine"] = f"Use one of {', '.join(Engine.values)}."
    elif wish.engine == Engine.EXTERNAL:
        problems.update(_external_problems(wish))
    else:
        variant = _find_variant(wish.variant, problems)
        problems.update(_managed_problems(wish))
    if problems or pool is None:
        wrong = "; ".join(f"{field}: {text}" for field, text in problems.items())
        raise RefusedError("invalid", f"This deployment can't be made as asked: {wrong}", fields=problems)
    spec = spec_of(name, wish, variant)
    return Checked(variant, pool, spec, spec_hash(spec))


def spec_of(name: str, wish: DeploymentWish, variant: Variant | None) -> dict[str, Any]:
    """Returns what a revision keeps: everything a replica's command line depends on except its place."""
    if wish.engine == Engine.EXTERNAL:
        url, model = external.api_url(wish.external_url), wish.external_model
        given = {key: value for key, value in sorted(wish.settings.items()) if value is not None}
        return {"engine": wish.engine, "external_url": url, "served_model_name": model, "settings": given}
    return {
        "engine": wish.engine,
        "model_path": variant.path if variant else "",
        "served_model_name": name,
        "tensor_parallel": wish.tensor_parallel,
        "pipeline_parallel": wish.pipeline_parallel,
        "accelerators": wish.accelerators_per_replica,
        "settings": {key: value for key, value in sorted(wish.settings.items()) if value is not None},
    }


def spec_hash(spec: Mapping[str, Any]) -> str:
    """Returns the hex SHA-256 of a spec in canonical JSON."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def engine_spec(spec: Mapping[str, Any], build: str) -> EngineSpec:
    """Returns a revision's spec as the node gets it, for engines of the given build (cpu or cuda)."""
    return EngineSpec(
        engine=spec["engine"],
        model_path=spec.get("model_path", ""),
        served_model_name=spec["served_model_name"],
        settings=dict(spec.get("settings", {})),
        tensor_parallel=spec.get("tensor_parallel", 1),
        pipeline_parallel=spec.get("pipeline_parallel", 1),
        build=build,
    )


def _find_variant(address: str, problems: dict[str, str]) -> Variant | None:
    model, _, name = address.partition("/")
    found = Variant.objects.filter(model__name=model, name=name).select_related("model").first()
    if found is None:
        problems["variant"] = f"There is no variant {address!r}; give it as model/variant."
    return found


def _ranks_told(wish: DeploymentWish) -> str:
    degrees = f"Tensor parallel {wish.tensor_parallel} times pipeline parallel {wish.pipeline_parallel}"
    copies = attention_copies(wish.settings)
    if copies > 1:
        return f"{degrees} times {copies} copies of attention uses {wish.ranks}."
    return f"{degrees} uses {wish.ranks}."


def _external_problems(wish: DeploymentWish) -> dict[str, str]:
    found = external.check_endpoint(wish.external_url, wish.external_model, wish.external_key or "")
    problems = {problem.field: problem.message for problem in found}
    if wish.replicas not in (0, 1):
        problems["replicas"] = "An external endpoint counts as one replica."
    for one in registry.get(wish.engine).validate(wish.settings):
        problems[f"settings.{one.field}"] = one.message
    if wish.variant:
        problems["variant"] = "An external endpoint has no variant here."
    return problems


def _managed_problems(wish: DeploymentWish) -> dict[str, str]:
    problems: dict[str, str] = {}
    if not 0 <= wish.replicas <= MAX_REPLICAS:
        problems["replicas"] = f"Give 0 to {MAX_REPLICAS}."
    for field, value in (("tensor_parallel", wish.tensor_parallel), ("pipeline_parallel", wish.pipeline_parallel)):
        if not 1 <= value <= MAX_ACCELERATORS:
            problems[field] = f"Give 1 to {MAX_ACCELERATORS}."
    if not 1 <= wish.accelerators_per_replica <= MAX_ACCELERATORS:
        problems["accelerators_per_replica"] = f"Give 1 to {MAX_ACCELERATORS}."
    elif not problems and wish.accelerators_per_replica != wish.ranks:
        problems["accelerators_per_replica"] = _ranks_told(wish)
    if wish.external_url or wish.external_model:
        problems["external_url"] = "Only an external endpoint has a URL and a model name of its own."
    for problem in registry.get(wish.engine).validate(wish.settings):
        problems[f"settings.{problem.field}"] = problem.message
    return problems
