"""What can be done to nodes and accelerators."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.console import rest
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave
from controlplane.console.guard import actor, page
from controlplane.deployments import selectors as deployments
from controlplane.domain.errors import RefusedError
from controlplane.fleet import selectors
from controlplane.fleet.services import nodes as services

_VERBS = ("cordon", "uncordon", "drain")


@page(roles.OPERATOR)
def one(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """Cordon, uncordon or drain a node."""
    _check(verb)
    selectors.node(name)
    back = reverse("node", args=[name])

    def do(values: Values) -> HttpResponse:
        _apply(request, name, verb, values)
        return leave(request, back, _done(verb, [name]))

    return ask(request, lambda values: _dialog(verb, [name], values, back), do)


@page(roles.OPERATOR)
def many(request: HttpRequest, verb: str) -> HttpResponse:
    """The same for several nodes at once."""
    _check(verb)
    asked = (request.POST if request.method == "POST" else request.GET).getlist("name")[:200]
    names = list(selectors.nodes().filter(name__in=asked).values_list("name", flat=True))
    back = reverse("nodes")

    def do(values: Values) -> HttpResponse:
        for name in names:
            _apply(request, name, verb, values)
        return leave(request, back, _done(verb, names))

    return ask(request, lambda values: _dialog(verb, names, values, back), do)


@page(roles.OPERATOR)
def accelerator(request: HttpRequest, name: str, uuid: str, verb: str) -> HttpResponse:
    """Cordon or uncordon one accelerator."""
    if verb not in ("cordon", "uncordon"):
        raise _no_such(verb)
    back = reverse("node", args=[name])

    def do(_values: Values) -> HttpResponse:
        services.cordon_accelerator(actor=actor(request), node=name, uuid=uuid, cordoned=verb == "cordon")
        text = _("The accelerator is cordoned.") if verb == "cordon" else _("The accelerator can be used again.")
        return leave(request, back, text)

    says = _says(verb)
    title = _("Cordon accelerator") if verb == "cordon" else _("Uncordon accelerator")
    label = _("Cordon") if verb == "cordon" else _("Uncordon")
    dialog = Dialog(
        title, label, [uuid, *says], rest=rest.call("POST", f"nodes/{name}/accelerators/{uuid}/{verb}/"), back=back
    )
    return ask(request, lambda _values: dialog, do)


def _check(verb: str) -> None:
    if verb not in _VERBS:
        raise _no_such(verb)


def _no_such(verb: str) -> RefusedError:
    return RefusedError("no_such_action", _("There is no action %(verb)s.") % {"verb": verb}, kind="not_found")


def _apply(request: HttpRequest, name: str, verb: str, values: Values) -> None:
    who, reason = actor(request), values.get("reason", "").strip()
    if verb == "cordon":
        services.cordon(actor=who, name=name, reason=reason)
    elif verb == "drain":
        services.drain(actor=who, name=name, reason=reason)
    else:
        services.uncordon(actor=who, name=name)


def _dialog(verb: str, names: list[str], values: Values, back: str) -> Dialog:
    titles = {"cordon": _("Cordon %(name)s"), "uncordon": _("Uncordon %(name)s"), "drain": _("Drain %(name)s")}
    labels = {"cordon": _("Cordon"), "uncordon": _("Uncordon"), "drain": _("Drain")}
    shown = names[0] if len(names) == 1 else ngettext("%(n)d node", "%(n)d nodes", len(names)) % {"n": len(names)}
    says = [*([", ".join(names)] if len(names) > 1 else []), *_says(verb), _runs(names)]
    fields = [] if verb == "uncordon" else [Field("reason", _("Why"), value=values.get("reason", ""), full=True)]
    body = None if verb == "uncordon" else {"reason": values.get("reason", "")}
    return Dialog(
        titles[verb] % {"name": shown},
        labels[verb],
        says,
        fields,
        "\n\n".join(rest.call("POST", f"nodes/{name}/{verb}/", body) for name in names[:20]),
        danger=verb == "drain",
        back=back,
        hidden=tuple(("name", name) for name in names) if len(names) > 1 else (),
    )


def _says(verb: str) -> list[str]:
    return {
        "cordon": [_("Nothing new is placed there; what runs goes on.")],
        "uncordon": [_("New replicas may be placed there again.")],
        "drain": [
            _("Nothing new is placed there. Its replicas are moved: a successor starts first where there is room.")
        ],
    }[verb]


def _runs(names: list[str]) -> str:
    running = deployments.replicas().filter(node__name__in=names)
    number = running.count()
    requests = sum(value or 0 for (value,) in running.values_list("in_flight"))
    text = ngettext("%(n)d replica runs there", "%(n)d replicas run there", number) % {"n": number}
    more = ngettext("with %(n)d running request.", "with %(n)d running requests.", requests) % {"n": requests}
    return f"{text} {more}" if number else _("No replica runs there.")


def _done(verb: str, names: list[str]) -> str:
    shown = ", ".join(names)
    texts = {
        "cordon": _("%(names)s: nothing new is placed there."),
        "uncordon": _("%(names)s: can be used again."),
        "drain": _("%(names)s: is being drained."),
    }
    return texts[verb] % {"names": shown}
