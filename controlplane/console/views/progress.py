"""Work under way, as the dialog shows it: it can be left at any time and found again on the object's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.console import progress, sentences, undo
from controlplane.console.guard import is_fragment, page, person
from controlplane.console.progress import Line, Progress
from controlplane.deployments import selectors
from controlplane.domain.errors import RefusedError
from controlplane.fleet import selectors as fleet

Refusals = Sequence[tuple[str, RefusedError]]  # the object's name and why nothing was done to it


@dataclass(frozen=True, slots=True)
class Work:
    """`address` is asked again until it is settled; `page` shows the same work. One `progress`, or a line an object."""

    title: str
    address: str
    page: str
    settled: bool
    sentence: str
    progress: Progress | None = None
    lines: Sequence[Line] = field(default_factory=tuple)


def begun(
    request: HttpRequest,
    work: Work,
    message: str,
    *,
    note: str = "",
    refused: Refusals = (),
    level: int = messages.SUCCESS,
) -> HttpResponse:
    """Turns the dialog into the progress of what was begun, with Undo and what was not done; without scripts it leads
    to the page of the work, where `message` stands."""
    if not is_fragment(request):
        messages.success(request, message, extra_tags=note)
        for name, error in refused:
            messages.error(request, f"{name}: {sentences.said(error.message)}")
        return redirect(work.page)
    context = {**_context(work, note, settled=False), "refused": refused}
    return render(request, "parts/progress.html", context)


@page()
def deployment(request: HttpRequest, name: str) -> HttpResponse:
    """What is under way for one deployment."""
    return _answer(request, of_deployment(name))


@page()
def replica(request: HttpRequest, replica_id: str) -> HttpResponse:
    """What is under way for a replica: its end, and the successor that its deployment starts."""
    return _answer(request, of_replica(replica_id))


@page()
def node(request: HttpRequest, name: str) -> HttpResponse:
    """What still has to leave a node."""
    return _answer(request, of_node(name))


@page()
def several_deployments(request: HttpRequest) -> HttpResponse:
    """How far each of several deployments is."""
    return _answer(request, of_deployments(request.GET.getlist("name")[:100]))


@page()
def several_nodes(request: HttpRequest) -> HttpResponse:
    """What still runs on each of several nodes."""
    return _answer(request, of_nodes(request.GET.getlist("name")[:100]))


def of_deployment(name: str) -> Work:
    """Returns the work on a deployment; one that is gone is settled."""
    address = reverse("deployment-progress", args=[name])
    try:
        found = progress.of(selectors.deployment(name))
    except RefusedError:
        text = _("%(name)s is gone. Nothing of it runs any more.") % {"name": name}
        return Work(name, address, reverse("deployments"), settled=True, sentence=text)
    return Work(name, address, reverse("deployment", args=[name]), found.settled, found.sentence, found)


def of_replica(replica_id: str) -> Work:
    """Returns the work on a replica."""
    row = selectors.replica(replica_id)
    found = progress.of(selectors.deployment(row.deployment.name))
    title = _("Replica %(id)s") % {"id": replica_id}
    address, back = reverse("replica-progress", args=[replica_id]), reverse("replica", args=[replica_id])
    return Work(title, address, back, found.settled and row.ended_at is not None, found.sentence, found)


def of_node(name: str) -> Work:
    """Returns the work on a node that is emptied."""
    found = progress.of_node(fleet.node(name))
    address, back = reverse("node-progress", args=[name]), reverse("node", args=[name])
    return Work(name, address, back, found.settled, found.sentence, found)


def of_deployments(names: Sequence[str]) -> Work:
    """Returns the work on several deployments."""
    return _several(_("Deployments"), "deployments-progress", "deployments", names, progress.of_several(names))


def of_nodes(names: Sequence[str]) -> Work:
    """Returns the work on several nodes that are emptied."""
    return _several(_("Nodes"), "nodes-progress", "nodes", names, progress.of_nodes(names))


def _several(title: str, address: str, back: str, names: Sequence[str], lines: Sequence[Line]) -> Work:
    query = urlencode([("name", name) for name in names])
    settled = sum(line.settled for line in lines)
    sentence = _("%(done)d of %(all)d are done.") % {"done": settled, "all": len(lines)}
    url = f"{reverse(address)}?{query}"
    return Work(title, url, reverse(back), settled == len(lines), sentence, lines=lines)


def _answer(request: HttpRequest, work: Work) -> HttpResponse:
    note = request.GET.get("undo", "")
    kept = note if note and undo.is_fresh(person(request), note) else ""
    return render(request, "parts/progress_work.html", _context(work, kept, settled=work.settled))


def _context(work: Work, note: str, *, settled: bool) -> dict[str, object]:
    joint = "&" if "?" in work.address else "?"
    poll = f"{work.address}{joint}{urlencode({'undo': note})}" if note else work.address
    return {"work": work, "settled": settled, "poll": poll, "note": note}
