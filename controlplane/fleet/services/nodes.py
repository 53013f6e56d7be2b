"""What people do to nodes. Facts about a node come from its reports, never from here."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from controlplane import dispatch
from controlplane.domain import labels as naming
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Accelerator, Node, Pool
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.telemetry.services import notify

MOST_PRICE_PER_HOUR = 1_000_000
_SET_HERE = ("cordoned", "cordon_reason", "draining", "pool", "labels", "card_price_per_hour")


def _locked(name: str, expected_version: int | None) -> Node:
    node = Node.objects.select_for_update().filter(name=name).first()
    if node is None:
        raise RefusedError("no_such_node", f"There is no node {name}.", kind="not_found")
    versioned.check(object_kind="node", object_id=name, version=node.version, expected_version=expected_version)
    return node


def _finish(actor: Actor, node: Node, verb: str, message: str, *, level: str = "info") -> Node:
    node.version += 1
    node.save(update_fields=[*_SET_HERE, "version"])
    record.event(
        actor=actor,
        verb=verb,
        object_kind="node",
        object_id=node.name,
        object_name=node.name,
        message=message,
        level=level,
    )
    dispatch.wake_controller()
    notify.changed("node", node.name, verb)
    return node


@transaction.atomic
def cordon(*, actor: Actor, name: str, reason: str = "", expected_version: int | None = None) -> Node:
    """Keeps new replicas away from a node; what runs on it goes on."""
    node = _locked(name, expected_version)
    if node.cordoned and node.cordon_reason == reason:
        return node
    node.cordoned, node.cordon_reason = True, reason[:200]
    return _finish(actor, node, "node.cordoned", f"Nothing new is placed on {name}{f' ({reason})' if reason else ''}.")


@transaction.atomic
def uncordon(*, actor: Actor, name: str, expected_version: int | None = None) -> Node:
    """Lets replicas be placed on a node again, and ends a drain."""
    node = _locked(name, expected_version)
    if not node.cordoned and not node.draining:
        return node
    node.cordoned, node.cordon_reason, node.draining = False, "", False
    return _finish(actor, node, "node.uncordoned", f"Replicas may be placed on {name} again.")


@transaction.atomic
def drain(*, actor: Actor, name: str, reason: str = "", expected_version: int | None = None) -> Node:
    """Empties a node: nothing new, and the controller moves its replicas, a successor first where there is room."""
    node = _locked(name, expected_version)
    if node.draining:
        return node
    node.cordoned, node.draining = True, True
    node.cordon_reason = (reason or "drained")[:200]
    message = f"Node {name} is being emptied{f' ({reason})' if reason else ''}."
    return _finish(actor, node, "node.drained", message, level="warning")


@transaction.atomic
def move(*, actor: Actor, name: str, pool: str, expected_version: int | None = None) -> Node:
    """Puts a node into another pool; replicas of deployments of the old pool are moved away from it."""
    node = _locked(name, expected_version)
    target = Pool.objects.filter(name=pool).first()
    if target is None:
        raise RefusedError("invalid", f"There is no pool {pool}.", fields={"pool": f"There is no pool {pool}."})
    if node.pool_id == target.pk:
        return node
    before = node.pool.name
    node.pool = target
    return _finish(actor, node, "node.moved", f"Node {name} went from pool {before} to {pool}.")


@transaction.atomic
def label(*, actor: Actor, name: str, labels: Mapping[str, str], expected_version: int | None = None) -> Node:
    """Gives a node exactly these labels; what runs there goes on, whatever its deployment asks for."""
    check_labels(labels)
    node = _locked(name, expected_version)
    if node.labels == dict(labels):
        return node
    node.labels = dict(labels)
    told = naming.told(labels)
    return _finish(
        actor, node, "node.labelled", f"Node {name} carries {told}." if told else f"Node {name} carries no label."
    )


def check_labels(labels: Mapping[str, str]) -> None:
    """Refuses labels that a node can't carry."""
    problem = naming.problem(labels)
    if problem:
        raise RefusedError("invalid", problem, fields={"labels": problem})


@transaction.atomic
def price(*, actor: Actor, name: str, card_price_per_hour: float | None, expected_version: int | None = None) -> Node:
    """Says what one accelerator of a node costs an hour, in any one currency; None = a typical rent is taken again.

    Placement prefers what costs less, and the planner takes it where no price is given; what runs there goes on.
    """
    if card_price_per_hour is not None and not 0 <= card_price_per_hour <= MOST_PRICE_PER_HOUR:
        right = f"Give a number from 0 to {MOST_PRICE_PER_HOUR:,}, or nothing for a typical rent."
        raise RefusedError("invalid", right, fields={"card_price_per_hour": right})
    node = _locked(name, expected_version)
    if node.card_price_per_hour == card_price_per_hour:
        return node
    node.card_price_per_hour = card_price_per_hour
    message = f"The cards of node {name} have no price of their own any more; a typical rent is taken."
    if card_price_per_hour is not None:
        message = f"A card of node {name} costs {card_price_per_hour:g} an hour."
    return _finish(actor, node, "node.priced", message)


@transaction.atomic
def cordon_accelerator(
    *, actor: Actor, node: str, uuid: str, cordoned: bool, expected_version: int | None = None
) -> Accelerator:
    """Keeps new replicas away from one accelerator, or lets them come again; makes a new version of the node."""
    owner = _locked(node, expected_version)
    row = Accelerator.objects.select_for_update().filter(node__name=node, uuid=uuid).select_related("node").first()
    if row is None:
        raise RefusedError("no_such_accelerator", f"Node {node} has no accelerator {uuid}.", kind="not_found")
    if row.cordoned == cordoned:
        return row
    row.cordoned = cordoned
    row.save(update_fields=["cordoned"])
    owner.version += 1
    owner.save(update_fields=["version"])
    verb = "node.accelerator_cordoned" if cordoned else "node.accelerator_uncordoned"
    what = "is kept free from now on" if cordoned else "may be used again"
    record.event(
        actor=actor,
        verb=verb,
        object_kind="node",
        object_id=node,
        object_name=node,
        message=f"Accelerator {row.index} ({row.name}) of {node} {what}.",
        numbers={"uuid": uuid},
    )
    dispatch.wake_controller()
    notify.changed("node", node, verb)
    return row
