"""Taking back what was just done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.console import rule_undo, sentences, undo
from controlplane.console.dialogs import leave
from controlplane.console.guard import ACTS, actor, page, person
from controlplane.console.undo import Back
from controlplane.deployments.services import deployments, freeze
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain.errors import RefusedError
from controlplane.fleet.services import nodes
from controlplane.journal.services.record import Actor


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter-action: what it does, and the page that shows the object."""

    do: Callable[[Actor, Back], object]
    page: Callable[[Back], str]
    role: str = roles.OPERATOR


@page(roles.OPERATOR, ACTS)
def take_back(request: HttpRequest) -> HttpResponse:
    """Does the counter-actions of a note; of several, those that can't be done are named with the reason."""
    steps = undo.read(person(request), request.POST.get("note", ""))
    refused: list[tuple[str, RefusedError]] = []
    for step in steps:
        counter = COUNTERS[step.kind]
        roles.require(person(request), counter.role)
        try:
            counter.do(actor(request), step)
        except RefusedError as error:
            refused.append((step.name, error))
    if len(refused) == len(steps):
        raise refused[0][1]
    for name, why in refused:
        messages.error(request, f"{name}: {sentences.said(why.message)}")
    pages = {COUNTERS[step.kind].page(step) for step in steps}
    several = reverse("nodes") if steps[0].kind == "node" else reverse("deployments")
    return leave(request, pages.pop() if len(pages) == 1 else several, _("Undone."))


def _scale(who: Actor, back: Back) -> object:
    replicas = back.values["replicas"]
    return deployments.scale(actor=who, name=back.name, replicas=replicas, expected_version=back.version)


def _desired(who: Actor, back: Back) -> object:
    services = {"running": deployments.start, "drained": deployments.drain, "stopped": deployments.stop}
    return services[back.values["state"]](actor=who, name=back.name, expected_version=back.version)


def _frozen(who: Actor, back: Back) -> object:
    frozen = back.values["frozen"]
    return deployments.set_frozen(actor=who, name=back.name, frozen=frozen, expected_version=back.version)


def _wish(who: Actor, back: Back) -> object:
    wish = DeploymentWish(**back.values)
    return deployments.apply(actor=who, name=back.name, wish=wish, expected_version=back.version)


@transaction.atomic
def _node(who: Actor, back: Back) -> object:
    node = nodes.uncordon(actor=who, name=back.name, expected_version=back.version)
    if not back.values["cordoned"]:
        return node
    return nodes.cordon(actor=who, name=back.name, reason=back.values["reason"], expected_version=node.version)


def _pool(who: Actor, back: Back) -> object:
    return nodes.move(actor=who, name=back.name, pool=back.values["pool"], expected_version=back.version)


def _labels(who: Actor, back: Back) -> object:
    return nodes.label(actor=who, name=back.name, labels=back.values["labels"], expected_version=back.version)


def _card_price(who: Actor, back: Back) -> object:
    return nodes.price(actor=who, name=back.name, expected_version=back.version, **back.values)


def _card(who: Actor, back: Back) -> object:
    return nodes.cordon_accelerator(actor=who, node=back.name, expected_version=back.version, **back.values)


def _freeze(who: Actor, back: Back) -> object:
    return freeze.apply(actor=who, expected_version=back.version, **back.values)


def _overview(_back: Back) -> str:
    return reverse("overview")


def _deployment_page(back: Back) -> str:
    return reverse("deployment", args=[back.name])


def _node_page(back: Back) -> str:
    return reverse("node", args=[back.name])


COUNTERS = {
    "scale": Counter(_scale, _deployment_page),
    "desired": Counter(_desired, _deployment_page),
    "frozen": Counter(_frozen, _deployment_page),
    "wish": Counter(_wish, _deployment_page),
    "node": Counter(_node, _node_page),
    "pool": Counter(_pool, _node_page),
    "labels": Counter(_labels, _node_page),
    "card_price": Counter(_card_price, _node_page),
    "card": Counter(_card, _node_page),
    "freeze": Counter(_freeze, _overview),
    **{kind: Counter(*counter) for kind, counter in rule_undo.COUNTERS.items()},
}
