"""The switch in the top bar: stops every automatic change, or allows them again."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.console import rest, undo
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, seen
from controlplane.console.guard import ASKS, actor, page, person
from controlplane.console.undo import Back
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, DesiredState, Freeze, ReplicaState
from controlplane.deployments.services import freeze as services


@page(roles.OPERATOR, ASKS)
def switch(request: HttpRequest) -> HttpResponse:
    """The dialog that turns the switch over."""
    before = services.current()
    back = _where_from(request)

    def do(values: Values) -> HttpResponse:
        frozen, reason = values.get("frozen") == "1", values.get("reason", "").strip()
        done = services.apply(actor=actor(request), frozen=frozen, reason=reason, expected_version=seen(values))
        text = _("Everything is frozen: nothing changes by itself.") if frozen else _("Automatic changes are on again.")
        was = {"frozen": before.frozen, "reason": before.reason}
        note = undo.note(person(request), Back("freeze", "headworks", done.row.version, was)) if done.changed else ""
        return leave(request, back, text, undo=note)

    return ask(request, lambda values: _dialog(before, values, back), do)


def _dialog(row: Freeze, values: Values, back: str) -> Dialog:
    reason = values.get("reason", "")
    wish: dict[str, object] = {"frozen": not row.frozen, "reason": "" if row.frozen else reason}
    call = rest.call("PUT", "freeze/", wish, version=row.version)
    hidden = (("frozen", "0" if row.frozen else "1"),)
    if row.frozen:
        says = [_since(row), *_numbers(), _("The system makes what is wanted true again, beginning now.")]
        return Dialog(_("Unfreeze everything"), _("Unfreeze"), says, (), call, False, back, None, row.version, hidden)
    says = [
        *_numbers(),
        _("Nothing is placed, replaced or ended by itself from then on. What people ask for in numbers is still done."),
        _("Traffic goes on, and an engine that dies is started again on its node."),
        _("Seats and the steps of ladders stay where they are; queues and limits hold as before."),
    ]
    why = Field("reason", _("Why"), value=reason, full=True)
    return Dialog(_("Freeze everything"), _("Freeze"), says, (why,), call, False, back, None, row.version, hidden)


def _numbers() -> list[str]:
    running = Deployment.objects.filter(desired_state=DesiredState.RUNNING, deleted_at=None).count()
    rows = selectors.replicas().aggregate(
        ready=Count("pk", filter=Q(state=ReplicaState.READY, goal="run")),
        moving=Count("pk", filter=~Q(state=ReplicaState.READY) | Q(goal="stop")),
    )
    told = ngettext("%(n)d deployment runs", "%(n)d deployments run", running) % {"n": running}
    ready = ngettext("with %(n)d ready replica.", "with %(n)d ready replicas.", rows["ready"]) % {"n": rows["ready"]}
    moving = ngettext(
        "%(n)d replica is on its way; it goes on.", "%(n)d replicas are on their way; they go on.", rows["moving"]
    )
    return [f"{told} {ready}", moving % {"n": rows["moving"]}]


def _since(row: Freeze) -> str:
    text = _("Frozen by %(who)s: %(why)s.") if row.reason else _("Frozen by %(who)s.")
    return text % {"who": row.changed_by, "why": row.reason.rstrip(".")}


def _where_from(request: HttpRequest) -> str:
    """The page under the dialog: the switch is on all of them."""
    url = request.headers.get("HX-Current-URL", "")
    safe = url_has_allowed_host_and_scheme(url, allowed_hosts={request.get_host()})
    return urlsplit(url).path if safe else reverse("overview")
