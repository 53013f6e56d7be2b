"""What can be done to one node, and to its accelerators."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.console import rest, undo
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, seen
from controlplane.console.guard import ASKS, actor, page, person
from controlplane.console.undo import Back
from controlplane.console.views import node_facts
from controlplane.console.views.nodes_actions import act, back_of, done, runs, says_of
from controlplane.console.views.progress import begun, of_node
from controlplane.deployments import selectors as deployments
from controlplane.deployments.services import lost_nodes
from controlplane.domain.errors import RefusedError
from controlplane.fleet import selectors
from controlplane.fleet.models import Node
from controlplane.fleet.services import nodes as services
from controlplane.fleet.services import reservations

GIB = 2**30


@page(roles.OPERATOR, ASKS)
def one(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """The dialog of one action on one node."""
    builders = {"cordon": _placing, "uncordon": _placing, "drain": _placing, "move": _moving, "forget": _forgetting,
                "label": node_facts.labelling, "price": node_facts.pricing}  # fmt: skip
    if verb not in builders:
        raise _no_such(verb)
    node = selectors.node(name)
    others = {"forget": _forget, "move": _move, "label": node_facts.label, "price": node_facts.price}

    def do(values: Values) -> HttpResponse:
        if verb in others:
            return others[verb](request, node, values)
        after = act(actor(request), verb, node, values.get("reason", "").strip(), seen(values))
        note = undo.note(person(request), back_of(node, after)) if after.version != node.version else ""
        if verb == "drain":
            return begun(request, of_node(name), done(verb, [name]), note=note)
        return leave(request, _page_of(name), done(verb, [name]), undo=note)

    return ask(request, lambda values: builders[verb](node, verb, values), do)


@page(roles.OPERATOR, ASKS)
def accelerator(request: HttpRequest, name: str, uuid: str, verb: str) -> HttpResponse:
    """Cordon or uncordon one accelerator."""
    if verb not in ("cordon", "uncordon"):
        raise _no_such(verb)
    node = selectors.node(name)
    row = selectors.accelerators(node=name, include_gone=True).filter(uuid=uuid).first()
    was_cordoned = bool(row and row.cordoned)

    def do(values: Values) -> HttpResponse:
        cordoned = verb == "cordon"
        services.cordon_accelerator(
            actor=actor(request), node=name, uuid=uuid, cordoned=cordoned, expected_version=seen(values)
        )
        text = _("The accelerator is cordoned.") if cordoned else _("The accelerator can be used again.")
        back = Back("card", name, selectors.node(name).version, {"uuid": uuid, "cordoned": was_cordoned})
        note = undo.note(person(request), back) if was_cordoned != cordoned else ""
        return leave(request, _page_of(name), text, undo=note)

    title = _("Cordon accelerator") if verb == "cordon" else _("Uncordon accelerator")
    label = _("Cordon") if verb == "cordon" else _("Uncordon")
    says = [f"{row.index} · {row.name} · {uuid}" if row else uuid, *says_of(verb)]
    call = rest.call("POST", f"nodes/{name}/accelerators/{uuid}/{verb}/", version=node.version)
    dialog = Dialog(title, label, says, rest=call, back=_page_of(name), version=node.version)
    return ask(request, lambda _values: dialog, do)


@page(roles.OPERATOR, ASKS)
def release(request: HttpRequest, name: str, uuid: str, owner_id: str) -> HttpResponse:
    """Release memory of an accelerator that did not come back from a replica that has ended."""
    node = selectors.node(name)
    row = selectors.accelerators(node=name, include_gone=True).filter(uuid=uuid).first()
    holders = selectors.shares_of(row).holders if row else ()
    missing = next((one.not_back_bytes or 0 for one in holders if one.owner_id == owner_id), 0)

    def do(values: Values) -> HttpResponse:
        reservations.give_up(
            actor=actor(request), node=name, uuid=uuid, owner_id=owner_id, expected_version=seen(values)
        )
        return leave(request, _page_of(name), _("The memory was released."))

    says = [
        f"{row.index} · {row.name} · {uuid}" if row else uuid,
        _("Up to %(size)s GiB of replica %(replica)s are not seen to be back.")
        % {"size": f"{missing / GIB:.1f}", "replica": owner_id},
        _("If something still uses them, an engine that is placed here may fail at its start."),
        _("What is in use beyond what is reserved counts as somebody else's from then on."),
    ]
    call = rest.call("POST", f"nodes/{name}/accelerators/{uuid}/release/", {"owner_id": owner_id}, version=node.version)
    title = _("Release memory that is not back")
    dialog = Dialog(title, _("Release"), says, rest=call, danger=True, back=_page_of(name), version=node.version)
    return ask(request, lambda _values: dialog, do)


def _placing(node: Node, verb: str, values: Values) -> Dialog:
    titles = {"cordon": _("Cordon %(name)s"), "uncordon": _("Uncordon %(name)s"), "drain": _("Drain %(name)s")}
    labels = {"cordon": _("Cordon"), "uncordon": _("Uncordon"), "drain": _("Drain")}
    reason = values.get("reason", "")
    fields = [] if verb == "uncordon" else [Field("reason", _("Why"), value=reason, full=True)]
    body = None if verb == "uncordon" else {"reason": reason}
    call = rest.call("POST", f"nodes/{node.name}/{verb}/", body, version=node.version)
    says = [*says_of(verb), runs([node.name])]
    title = titles[verb] % {"name": node.name}
    return Dialog(title, labels[verb], says, fields, call, verb == "drain", _page_of(node.name), version=node.version)


def _moving(node: Node, _verb: str, values: Values) -> Dialog:
    pools = tuple((row.name, row.name) for row in selectors.pools())
    wanted = values.get("pool", node.pool.name)
    leaving = deployments.replicas(node=node.name).exclude(deployment__pool__name=wanted).count()
    says = [
        _("It belongs to pool %(pool)s now.") % {"pool": node.pool.name},
        ngettext(
            "%(n)d replica of a deployment of another pool is moved away.",
            "%(n)d replicas of deployments of another pool are moved away.",
            leaving,
        )
        % {"n": leaving}
        if wanted != node.pool.name
        else runs([node.name]),
    ]
    field = Field("pool", _("Pool"), "select", wanted, choices=pools, required=True, full=True)
    call = rest.call("POST", f"nodes/{node.name}/move/", {"pool": wanted}, version=node.version)
    title = _("Move %(name)s to a pool") % {"name": node.name}
    return Dialog(title, _("Move"), says, [field], call, back=_page_of(node.name), version=node.version)


def _move(request: HttpRequest, node: Node, values: Values) -> HttpResponse:
    pool = values.get("pool", "")
    after = services.move(actor=actor(request), name=node.name, pool=pool, expected_version=seen(values))
    if after.version == node.version:
        return leave(request, _page_of(node.name), _("It was in that pool already."))
    note = undo.note(person(request), Back("pool", node.name, after.version, {"pool": node.pool.name}))
    text = _("%(name)s belongs to pool %(pool)s now.") % {"name": node.name, "pool": pool}
    return leave(request, _page_of(node.name), text, undo=note)


def _forgetting(node: Node, _verb: str, values: Values) -> Dialog:
    says = [
        runs([node.name]),
        _("Node, accelerators and its replicas go from the records; their deployments make others elsewhere."),
        _("If the machine comes back, it registers anew and ends what it still runs."),
    ]
    label = _("Type %(name)s to confirm") % {"name": node.name}
    typed = Field("typed", label, "text", values.get("typed", ""), required=True)
    title = _("Forget %(name)s") % {"name": node.name}
    call = rest.call("POST", f"nodes/{node.name}/forget/", version=node.version)
    return Dialog(title, _("Forget"), says, [typed], call, danger=True, back=_page_of(node.name), version=node.version)


def _forget(request: HttpRequest, node: Node, values: Values) -> HttpResponse:
    if values.get("typed", "").strip() != node.name:
        text = _("Type the node's name exactly.")
        raise RefusedError("invalid", text, fields={"typed": text})
    number = lost_nodes.forget(actor=actor(request), name=node.name, expected_version=seen(values))
    told = ngettext("%(name)s was forgotten with %(n)d replica.", "%(name)s was forgotten with %(n)d replicas.", number)
    return leave(request, reverse("nodes"), told % {"name": node.name, "n": number})


def _no_such(verb: str) -> RefusedError:
    return RefusedError("no_such_action", _("There is no action %(verb)s.") % {"verb": verb}, kind="not_found")


def _page_of(name: str) -> str:
    return reverse("node", args=[name])
