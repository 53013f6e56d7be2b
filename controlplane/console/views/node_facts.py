"""What people say of a node: its labels, and what its cards cost."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.console import label_text, rest, undo
from controlplane.console.dialogs import Dialog, Field, Values, leave, seen, show
from controlplane.console.guard import actor, person
from controlplane.console.undo import Back
from controlplane.deployments import selectors as deployments
from controlplane.domain import labels as naming
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Node
from controlplane.fleet.services import nodes as services

_MOST_NAMED = 12


def labelling(node: Node, _verb: str, values: Values) -> Dialog:
    """Asks for the labels; whom they matter to is said once they are known."""
    text = values.get("labels", naming.told(node.labels))
    help_text = _("name=value, with commas in between. Deployments may ask for nodes with some of them.")
    field = Field("labels", _("Labels"), "text", text, help_text, full=True, placeholder="rack=r1, zone=a")
    says = [_("All labels are replaced by these. What runs there goes on, whatever its deployment asks for.")]
    try:
        labels = label_text.read(text, "labels")
    except RefusedError:
        labels = dict(node.labels)
    affected = _affected(node, labels)
    call = rest.call("POST", f"nodes/{node.name}/label/", {"labels": labels}, version=node.version)
    return Dialog(
        _("Labels of %(name)s") % {"name": node.name}, _("Change them all the same") if affected else _("Save"),
        [*says, *affected], [field], call, back=_page_of(node), version=node.version,
        hidden=[("confirmed", text)] if affected else (),
    )  # fmt: skip


def label(request: HttpRequest, node: Node, values: Values) -> HttpResponse:
    """Gives the node the labels; where deployments lose the node by it, they are named first and it is asked again."""
    text = values.get("labels", "")
    labels = label_text.read(text, "labels")
    services.check_labels(labels)
    if _affected(node, labels) and values.get("confirmed") != text:
        return show(request, labelling(node, "label", values))
    after = services.label(actor=actor(request), name=node.name, labels=labels, expected_version=seen(values))
    if after.version == node.version:
        return leave(request, _page_of(node), _("It has these labels already."))
    note = undo.note(person(request), Back("labels", node.name, after.version, {"labels": node.labels}))
    return leave(request, _page_of(node), _("The labels were saved."), undo=note)


def _affected(node: Node, labels: dict[str, str]) -> list[str]:
    found = deployments.relabelled(node, labels)
    says = []
    if found.losing:
        says.append(
            _("Nothing new of these deployments is placed there, because they ask for other labels: %(names)s.")
            % {"names": _named(found.losing)}
        )
        if found.running:
            text = ngettext(
                "%(n)d replica of them runs there. It is not moved.",
                "%(n)d replicas of them run there. They are not moved.",
                found.running,
            )
            says.append(text % {"n": found.running})
    if found.gaining and found.losing:
        says.append(_("These may be placed there from then on: %(names)s.") % {"names": _named(found.gaining)})
    return says


def pricing(node: Node, _verb: str, values: Values) -> Dialog:
    """Asks what one card costs an hour."""
    now = "" if node.card_price_per_hour is None else f"{node.card_price_per_hour:g}"
    text = values.get("card_price_per_hour", now)
    field = Field(
        "card_price_per_hour", _("Price of a card"), "number", text, _("Empty: a typical rent is taken."),
        minimum=0, maximum=services.MOST_PRICE_PER_HOUR, step="any", unit=_("an hour"), full=True,
    )  # fmt: skip
    says = [
        _("Of one card, in the currency that you use everywhere."),
        _("Where several nodes would do, new replicas go to what costs less. What runs there goes on."),
    ]
    try:
        body = {"card_price_per_hour": _price_of(text)}
    except RefusedError:
        body = {"card_price_per_hour": node.card_price_per_hour}
    call = rest.call("POST", f"nodes/{node.name}/price/", body, version=node.version)
    title = _("Price of the cards of %(name)s") % {"name": node.name}
    return Dialog(title, _("Save"), says, [field], call, back=_page_of(node), version=node.version)


def price(request: HttpRequest, node: Node, values: Values) -> HttpResponse:
    """Keeps what one card costs."""
    wanted = _price_of(values.get("card_price_per_hour", ""))
    after = services.price(
        actor=actor(request), name=node.name, card_price_per_hour=wanted, expected_version=seen(values)
    )
    if after.version == node.version:
        return leave(request, _page_of(node), _("It has this price already."))
    back = Back("card_price", node.name, after.version, {"card_price_per_hour": node.card_price_per_hour})
    return leave(request, _page_of(node), _("The price was saved."), undo=undo.note(person(request), back))


def _price_of(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        sentence = _("Give a number.")
        raise RefusedError("invalid", sentence, fields={"card_price_per_hour": sentence}) from None


def _named(names: list[str]) -> str:
    left = len(names) - _MOST_NAMED
    told = ", ".join(names[:_MOST_NAMED])
    return told if left <= 0 else _("%(names)s and %(n)d more") % {"names": told, "n": left}


def _page_of(node: Node) -> str:
    return reverse("node", args=[node.name])
