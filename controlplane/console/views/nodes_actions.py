"""What can be done to several nodes at once; what was not done is named with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import messages
from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.console import rest, sentences, undo
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, whole
from controlplane.console.guard import ASKS, actor, page, person
from controlplane.console.undo import Back
from controlplane.console.views.progress import begun, of_nodes
from controlplane.deployments import selectors as deployments
from controlplane.domain.errors import RefusedError
from controlplane.fleet import selectors
from controlplane.fleet.models import Node
from controlplane.fleet.services import nodes as services
from controlplane.journal.services.record import Actor

MOST = 100  # at once


@page(roles.OPERATOR, ASKS)
def many(request: HttpRequest, verb: str) -> HttpResponse:
    """Cordon, uncordon or drain several nodes at once."""
    if verb not in ("cordon", "uncordon", "drain"):
        raise RefusedError("no_such_action", _("There is no action %(verb)s.") % {"verb": verb}, kind="not_found")
    asked = (request.POST if request.method == "POST" else request.GET).getlist("name")[:MOST]
    rows = list(selectors.nodes().filter(name__in=asked))

    def do(values: Values) -> HttpResponse:
        changed: list[Back] = []
        refused: list[tuple[str, RefusedError]] = []
        for row in rows:
            version = f"version:{row.name}"
            expected = whole(values, version) if version in values else None
            try:
                after = act(actor(request), verb, row, values.get("reason", "").strip(), expected)
            except RefusedError as error:
                refused.append((row.name, error))
                continue
            if after.version != row.version:
                changed.append(back_of(row, after))
        names = [row.name for row in rows if row.name not in [name for name, _why in refused]]
        note = undo.note(person(request), *changed)
        if verb == "drain":
            return begun(request, of_nodes(names), done(verb, names), note=note, refused=refused)
        for name, why in refused:
            messages.error(request, f"{name}: {sentences.said(why.message)}")
        return leave(request, reverse("nodes"), done(verb, names) if names else "", undo=note)

    return ask(request, lambda values: _dialog(verb, rows, values), do)


def act(who: Actor, verb: str, node: Node, reason: str, expected_version: int | None) -> Node:
    """Cordons, uncordons or drains one node."""
    if verb == "cordon":
        return services.cordon(actor=who, name=node.name, reason=reason, expected_version=expected_version)
    if verb == "drain":
        return services.drain(actor=who, name=node.name, reason=reason, expected_version=expected_version)
    return services.uncordon(actor=who, name=node.name, expected_version=expected_version)


def back_of(before: Node, after: Node) -> Back:
    """Returns what makes a node be as it was before."""
    values = {"cordoned": before.cordoned, "reason": before.cordon_reason}
    return Back("node", before.name, after.version, values)


def _dialog(verb: str, rows: Sequence[Node], values: Values) -> Dialog:
    titles = {"cordon": _("Cordon %(name)s"), "uncordon": _("Uncordon %(name)s"), "drain": _("Drain %(name)s")}
    labels = {"cordon": _("Cordon"), "uncordon": _("Uncordon"), "drain": _("Drain")}
    names = [row.name for row in rows]
    shown = ngettext("%(n)d node", "%(n)d nodes", len(names)) % {"n": len(names)}
    reason = values.get("reason", "")
    fields = [] if verb == "uncordon" else [Field("reason", _("Why"), value=reason, full=True)]
    body = None if verb == "uncordon" else {"reason": reason}
    calls = [rest.call("POST", f"nodes/{row.name}/{verb}/", body, version=row.version) for row in rows[:20]]
    return Dialog(
        titles[verb] % {"name": shown},
        labels[verb],
        [", ".join(names), *says_of(verb), runs(names)],
        fields,
        "\n\n".join(calls),
        danger=verb == "drain",
        back=reverse("nodes"),
        hidden=[pair for row in rows for pair in (("name", row.name), (f"version:{row.name}", str(row.version)))],
    )


def says_of(verb: str) -> list[str]:
    """Returns what the action means, for nodes and accelerators alike."""
    return {
        "cordon": [_("Nothing new is placed there; what runs goes on.")],
        "uncordon": [_("New replicas may be placed there again.")],
        "drain": [
            _("Nothing new is placed there. Its replicas are moved: a successor starts first where there is room.")
        ],
    }[verb]


def runs(names: Sequence[str]) -> str:
    """Returns in numbers what runs on these nodes."""
    running = deployments.replicas().filter(node__name__in=names)
    numbers = running.aggregate(replicas=Count("pk"), requests=Sum("in_flight"))
    count, requests = numbers["replicas"], numbers["requests"] or 0
    text = ngettext("%(n)d replica runs there", "%(n)d replicas run there", count) % {"n": count}
    more = ngettext("with %(n)d running request.", "with %(n)d running requests.", requests) % {"n": requests}
    return f"{text} {more}" if count else _("No replica runs there.")


def done(verb: str, names: Sequence[str]) -> str:
    """Returns what was done."""
    texts = {
        "cordon": _("%(names)s: nothing new is placed there."),
        "uncordon": _("%(names)s: can be used again."),
        "drain": _("%(names)s: is being drained."),
    }
    return texts[verb] % {"names": ", ".join(names)}
