"""What people and programs do to deployments. Each service writes the wish; the controller makes it true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane import dispatch
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, DesiredState, Engine, Revision
from controlplane.deployments.services import checking, endpoints, preview
from controlplane.deployments.services.checking import Checked
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain import labels
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.telemetry.services import notify

STOP_DRAIN_S = 60.0  # how long running requests get when a replica is stopped
preview_command = preview.preview_command
preview_ledgers = preview.preview_ledgers


@dataclass(frozen=True, slots=True)
class Applied:
    """What `apply` did. `changed` False = everything already was as asked and nothing was written."""

    deployment: Deployment
    changed: bool
    created: bool


@transaction.atomic
def apply(*, actor: Actor, name: str, wish: DeploymentWish, expected_version: int | None = None) -> Applied:
    """Makes a deployment be as wished; the same wish again changes nothing.

    A new revision is made only when the engine's spec changes. `expected_version` is the version that the caller saw
    (0 = it must not exist yet). Raises RefusedError with the wrong fields, or `changed_meanwhile`.
    """
    checked = checking.check(name, wish)
    deployment = Deployment.objects.select_for_update(of=("self",)).select_related("revision").filter(name=name).first()
    if deployment is None:
        versioned.check(object_kind="deployment", object_id=name, version=0, expected_version=expected_version)
        return Applied(_create(actor, name, wish, checked), changed=True, created=True)
    _check_version(deployment, expected_version)
    _check_not_leaving(deployment)
    if Engine.EXTERNAL in (deployment.engine, wish.engine) and deployment.engine != wish.engine:
        text = "An external endpoint and an engine of Headworks can't become one another; make a new deployment."
        raise RefusedError("invalid", text, fields={"engine": text})
    numbers = _differences(deployment, wish, checked)
    if not numbers:
        return Applied(deployment, changed=False, created=False)
    _write(deployment, wish, checked)
    if deployment.revision is None or deployment.revision.hash != checked.hash:
        deployment.revision = _next_revision(actor, deployment, wish, checked)
    _save(actor, deployment, "deployment.changed", _sentence(numbers), numbers)
    if "external_key" in numbers:
        endpoints.ask_anew(deployment)
    return Applied(deployment, changed=True, created=False)


@transaction.atomic
def start(*, actor: Actor, name: str, expected_version: int | None = None) -> Deployment:
    """Asks for the wanted replicas to run."""
    return _set_desired(actor, name, DesiredState.RUNNING, "deployment.started", expected_version)


@transaction.atomic
def stop(*, actor: Actor, name: str, expected_version: int | None = None) -> Deployment:
    """Takes nothing new, gives running requests a short time, then ends every replica."""
    return _set_desired(actor, name, DesiredState.STOPPED, "deployment.stopped", expected_version)


@transaction.atomic
def drain(*, actor: Actor, name: str, expected_version: int | None = None) -> Deployment:
    """Takes nothing new, gives running requests as long as they need (up to an hour), then ends every replica."""
    return _set_desired(actor, name, DesiredState.DRAINED, "deployment.drained", expected_version)


@transaction.atomic
def scale(*, actor: Actor, name: str, replicas: int, expected_version: int | None = None) -> Deployment:
    """Sets how many replicas are wanted."""
    deployment = _locked(name, expected_version)
    highest = 1 if deployment.engine == Engine.EXTERNAL else checking.MAX_REPLICAS
    if not 0 <= replicas <= highest:
        text = f"Give 0 to {highest}."
        raise RefusedError("invalid", f"{name} can't have {replicas} replicas. {text}", fields={"replicas": text})
    if deployment.replicas_wanted == replicas:
        return deployment
    numbers = {"replicas": [deployment.replicas_wanted, replicas]}
    deployment.replicas_wanted = replicas
    return _save(actor, deployment, "deployment.scaled", _sentence(numbers), numbers)


@transaction.atomic
def clone(*, actor: Actor, name: str, new_name: str, expected_version: int | None = None) -> Deployment:
    """Makes a stopped deployment with the same settings under another name."""
    source = _locked(name, expected_version)
    if Deployment.objects.filter(name=new_name).exists():
        text = f"There is already a deployment {new_name}."
        raise RefusedError("name_taken", text, kind="conflict", fields={"new_name": text})
    wish = selectors.wish(source)
    copy = DeploymentWish(
        **{
            **{field: getattr(wish, field) for field in DeploymentWish.__dataclass_fields__},
            "desired_state": DesiredState.STOPPED,
            "external_key": source.external_key or None,
            "note": f"Copy of {name}.",
        }
    )
    deployment = _create(actor, new_name, copy, checking.check(new_name, copy))
    message = f"Copied to {new_name}."
    record.event(
        actor=actor, verb="deployment.cloned", object_kind="deployment", object_id=name, object_name=name,
        message=message, numbers={"to": new_name},
    )  # fmt: skip
    return deployment


@transaction.atomic
def set_frozen(*, actor: Actor, name: str, frozen: bool, expected_version: int | None = None) -> Deployment:
    """Stops, or allows again, every automatic change of one deployment; engines are still restarted on their node."""
    deployment = _locked(name, expected_version)
    if deployment.frozen == frozen:
        return deployment
    deployment.frozen = frozen
    verb = "deployment.frozen" if frozen else "deployment.unfrozen"
    message = "No automatic changes from now on." if frozen else "Automatic changes are allowed again."
    return _save(actor, deployment, verb, message, {})


@transaction.atomic
def delete(*, actor: Actor, name: str, expected_version: int | None = None) -> Deployment:
    """Drains the deployment; the controller removes it once no replica lives. Its history stays in the journal."""
    deployment = Deployment.objects.select_for_update(of=("self",)).filter(name=name).first()
    if deployment is None:
        raise RefusedError("no_such_deployment", f"There is no deployment {name}.", kind="not_found")
    _check_version(deployment, expected_version)
    if deployment.deleted_at is not None:
        return deployment
    deployment.deleted_at = timezone.now()
    message = "It is drained and then removed."
    return _save(actor, deployment, "deployment.deleted", message, {}, level="warning")


def _set_desired(actor: Actor, name: str, desired: str, verb: str, expected_version: int | None) -> Deployment:
    deployment = _locked(name, expected_version)
    if deployment.desired_state == desired:
        return deployment
    numbers = {"desired_state": [deployment.desired_state, desired]}
    deployment.desired_state = desired
    if desired == DesiredState.STOPPED:  # what is being drained already has less time from now on
        ending = deployment.replicas.filter(ended_at=None, goal="stop", drain_timeout_s__gt=STOP_DRAIN_S)
        locked = list(ending.select_for_update().order_by("pk").values_list("pk", flat=True))  # as reports lock them
        deployment.replicas.filter(pk__in=locked).update(drain_timeout_s=STOP_DRAIN_S)
    return _save(actor, deployment, verb, _sentence(numbers), numbers)


def _locked(name: str, expected_version: int | None) -> Deployment:
    rows = Deployment.objects.select_for_update(of=("self",)).select_related("revision", "pool", "variant__model")
    deployment = rows.filter(name=name).first()
    if deployment is None:
        raise RefusedError("no_such_deployment", f"There is no deployment {name}.", kind="not_found")
    _check_version(deployment, expected_version)
    _check_not_leaving(deployment)
    return deployment


def _check_version(deployment: Deployment, expected_version: int | None) -> None:
    versioned.check(
        object_kind="deployment",
        object_id=deployment.name,
        version=deployment.version,
        expected_version=expected_version,
    )


def _check_not_leaving(deployment: Deployment) -> None:
    if deployment.deleted_at is not None:
        message = f"{deployment.name} is being removed."
        raise RefusedError(
            "being_deleted", message, kind="conflict", hint="Wait until it is gone, or use another name."
        )


def _create(actor: Actor, name: str, wish: DeploymentWish, checked: Checked) -> Deployment:
    deployment = Deployment(name=name, changed_by=actor.name)
    _write(deployment, wish, checked)
    try:
        with transaction.atomic():
            deployment.save()
    except IntegrityError:
        raise versioned.changed_meanwhile(
            object_kind="deployment", object_id=name, version=1, expected_version=0
        ) from None
    deployment.revision = _next_revision(actor, deployment, wish, checked)
    deployment.save(update_fields=["revision"])
    numbers = {"replicas": wish.replicas, "engine": wish.engine, "pool": wish.pool, "variant": wish.variant}
    replicas = f"{wish.replicas} replica{'s' if wish.replicas != 1 else ''}"
    message = f"Made with {replicas} on {wish.engine}; it is to be {wish.desired_state}."
    if wish.engine == Engine.EXTERNAL:
        message = f"Made for an external endpoint; it is to be {wish.desired_state}."
    _tell(actor, deployment, "deployment.created", message, numbers)
    return deployment


def _write(deployment: Deployment, wish: DeploymentWish, checked: Checked) -> None:
    deployment.engine = wish.engine
    deployment.variant = checked.variant
    deployment.pool = checked.pool
    deployment.desired_state = wish.desired_state
    deployment.replicas_wanted = wish.replicas
    if wish.external_key is not None:
        deployment.external_key = wish.external_key
    if wish.node_labels is not None:
        deployment.node_labels = dict(wish.node_labels)


def _next_revision(actor: Actor, deployment: Deployment, wish: DeploymentWish, checked: Checked) -> Revision:
    newest = deployment.revisions.order_by("-number").first()
    return Revision.objects.create(
        deployment=deployment,
        number=newest.number + 1 if newest else 1,
        hash=checked.hash,
        spec=dict(checked.spec),
        accelerators_per_replica=wish.accelerators_per_replica,
        created_by=actor.name,
        note=wish.note[:200],
    )


def _differences(deployment: Deployment, wish: DeploymentWish, checked: Checked) -> dict[str, list[Any]]:
    """Returns field -> [before, after] of what the wish changes; secrets are only said to have changed."""
    before = selectors.wish(deployment)
    found: dict[str, list[Any]] = {}
    for field in ("engine", "variant", "pool", "desired_state", "replicas"):
        if getattr(before, field) != getattr(wish, field):
            found[field] = [getattr(before, field), getattr(wish, field)]
    if wish.node_labels is not None and dict(wish.node_labels) != deployment.node_labels:
        found["node_labels"] = [labels.told(deployment.node_labels), labels.told(wish.node_labels)]
    old = deployment.revision.spec if deployment.revision else {}
    found.update(_spec_differences(old, checked.spec))
    if wish.external_key is not None and wish.external_key != deployment.external_key:
        found["external_key"] = ["(a secret)", "(another secret)"]
    return found


def _spec_differences(old: dict[str, Any], new: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for field in sorted({*old, *new} - {"settings", "engine"}):
        if old.get(field) != new.get(field):
            found[field] = [old.get(field), new.get(field)]
    before, after = old.get("settings", {}), new.get("settings", {})
    for setting in sorted({*before, *after}):
        if before.get(setting) != after.get(setting):
            found[f"settings.{setting}"] = [before.get(setting), after.get(setting)]
    return found


def _sentence(numbers: dict[str, list[Any]]) -> str:
    shown = [f"{field} {_told(old)} → {_told(new)}" for field, (old, new) in numbers.items()]
    return f"Changed {', '.join(shown)}."


def _told(value: Any) -> str:
    """A value as a person reads it."""
    if value is None or value == "":
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(_told(one) for one in value)
    return str(value)


def _save(
    actor: Actor, deployment: Deployment, verb: str, message: str, numbers: dict[str, Any], *, level: str = "info"
) -> Deployment:
    deployment.version += 1
    deployment.changed_by = actor.name
    deployment.save()
    _tell(actor, deployment, verb, message, {**numbers, "version": deployment.version}, level=level)
    return deployment


def _tell(
    actor: Actor, deployment: Deployment, verb: str, message: str, numbers: dict[str, Any], *, level: str = "info"
) -> None:
    record.event(
        actor=actor, verb=verb, object_kind="deployment", object_id=deployment.name, object_name=deployment.name,
        message=message, numbers=numbers, level=level,
    )  # fmt: skip
    dispatch.wake_controller()
    notify.changed("deployment", deployment.name, verb)
