"""One replica: its history with reasons, its command line, what was measured, its log."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles
from controlplane.console import charts, ledger_rows, passed_over, rest, samples
from controlplane.console.dialogs import Dialog, Field, Values, ask, or_else, whole
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column
from controlplane.console.views.progress import begun, of_replica
from controlplane.deployments import selectors
from controlplane.deployments.models import Engine, Replica
from controlplane.deployments.services import predictions
from controlplane.deployments.services import replicas as services
from controlplane.domain.access import LOGS
from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger import measured
from controlplane.lib import engine_log, valkey

_LINES = 200


@page()
def replica(request: HttpRequest, replica_id: str) -> HttpResponse:
    """The page of one replica."""
    row = selectors.replica(replica_id)
    lines = log_lines(row) if roles.may(request, LOGS) else None
    context = {
        **_head(row),
        "charts": charts.replica(row.pk, external=row.deployment.engine == Engine.EXTERNAL),
        "lines": lines,
    }
    return render(request, "replica/detail.html", context)


@page()
def head(request: HttpRequest, replica_id: str) -> HttpResponse:
    """Header and history, fetched again after a change."""
    return render(request, "replica/head.html", _head(selectors.replica(replica_id)))


@page(roles.OPERATOR, ASKS)
def do(request: HttpRequest, replica_id: str, verb: str) -> HttpResponse:
    """Drain or restart one replica; the dialog becomes the progress of its end and of its successor."""
    if verb not in ("drain", "restart"):
        raise RefusedError("no_such_action", _("There is no action %(verb)s.") % {"verb": verb}, kind="not_found")
    row = selectors.replica(replica_id)
    back = reverse("replica", args=[replica_id])

    def act(values: Values) -> HttpResponse:
        if verb == "restart":
            services.restart(actor=actor(request), replica_id=replica_id)
            text = _("The replica ends now; the deployment makes another one.")
        else:
            limit = whole(values, "drain_timeout_s", 60)
            services.drain(actor=actor(request), replica_id=replica_id, drain_timeout_s=float(limit))
            text = _("The replica takes nothing new and ends.")
        return begun(request, of_replica(replica_id), text)

    build = _drain if verb == "drain" else _restart
    return ask(request, lambda values: build(row, values, back), act)


def replica_columns(*, with_node: bool = True) -> list[Column]:
    """Returns the columns of a table of replicas: of a deployment (with the node), or of a node."""
    place = Column(_("Node"), "node__name") if with_node else Column(_("Deployment"), "deployment__name")
    return [
        Column(_("Replica"), "id"),
        Column(_("State"), "state"),
        place,
        Column(_("Revision"), "revision__number", "num at-l"),
        Column(_("Output"), "", "num", "tok/s"),
        Column(_("Running"), "", "num"),
        Column(_("Waiting"), "", "num"),
        Column(_("KV"), "", "at-l", "%"),
        Column(_("Since"), "state_since", "num"),
    ]


def log_lines(row: Replica) -> list[engine_log.LogLine]:
    """Returns the newest lines: those in Valkey, else those that were kept when the engine ended."""
    client = valkey.connect()
    try:
        live = engine_log.tail(client, row.pk, _LINES)
    except valkey.ERRORS:
        live = []
    finally:
        client.close()
    return live or [engine_log.LogLine(number, line) for number, line in enumerate(row.log_tail, 1)]


def _head(row: Replica) -> dict[str, Any]:
    steps = list(selectors.transitions(row))
    ends = [*(step.at for step in steps[1:]), row.ended_at][: len(steps)]
    return {
        "replica": row,
        "deployment": row.deployment,
        "subject": f"replica:{row.pk}",
        "samples": samples.newest([f"replica:{row.pk}"]),
        "steps": list(reversed(list(zip(steps, ends, strict=True)))),
        "facts": _facts(row),
        "ledger": ledger_rows.of_row(selectors.ledger_row(row)),
        "rejections": passed_over.lines(selectors.passed_over([row.pk]).get(row.pk, ())),
        "accelerators": _accelerators(row),
        "external": row.deployment.engine == Engine.EXTERNAL,
        "simulated": row.deployment.engine == Engine.SIMULATED,
        "state": "lost" if row.node and row.node.lost and row.ended_at is None else row.state,
    }


def _accelerators(row: Replica) -> str:
    """The accelerators in words: equal ones counted, 4 × H100."""
    names = Counter(one.get("name") or one.get("address", "") for one in row.assigned)
    return ", ".join(f"{number} × {name}" if number > 1 else name for name, number in names.items())


def _facts(row: Replica) -> list[tuple[str, str, Any, str]]:
    """What was measured, as (label, how to write it, value, where it is from)."""
    facts = predictions.facts_of(row)
    seen = measured.of_engine(facts)
    utilization = None if seen.utilization is None or _is_on_cores(row) else seen.utilization * 100
    found: list[tuple[str, str, str, Any]] = [
        ("engine_version", _("Engine version"), "text", facts.engine_version),
        ("start_s", _("Time to ready"), "duration", facts.start_s),
        ("weights_bytes", _("Weights"), "gib", seen.weights_bytes),
        ("kv_cache_bytes", _("KV cache"), "gib", seen.kv_cache_bytes),
        ("kv_cache_tokens", _("KV cache"), "tokens", seen.kv_cache_tokens),
        ("gpu_blocks", _("KV blocks"), "count", seen.gpu_blocks),
        ("block_tokens", _("KV block"), "tokens", seen.block_tokens),
        ("cache_dtype", _("Type of the KV cache"), "text", seen.cache_dtype),
        ("utilization", _("Share of the accelerator"), "percent", utilization),
        ("max_concurrency", _("Requests of full length at once"), "number", seen.max_concurrency),
    ]
    return [
        (label, form, value, ledger_rows.source(seen.sources, name))
        for name, label, form, value in found
        if value is not None
    ]


def _is_on_cores(row: Replica) -> bool:
    """An engine on CPU cores names a share of a card that it has not."""
    return any(one.get("kind") == "cpu" for one in row.assigned)


def _drain(row: Replica, values: Values, back: str) -> Dialog:
    limit = values.get("drain_timeout_s", "60")
    field = Field("drain_timeout_s", _("Time limit"), "number", limit, minimum=0, maximum=86400, unit="s")
    says = [
        _in_flight(row),
        _(
            "It takes nothing new and ends when its requests have, at the latest after the limit. "
            "The deployment replaces it."
        ),
    ]
    body = {"drain_timeout_s": or_else(limit, 60)}
    return Dialog(
        _("Drain replica %(id)s") % {"id": row.pk}, _("Drain"), says, [field],
        rest.call("POST", f"replicas/{row.pk}/drain/", body), back=back,
    )  # fmt: skip


def _restart(row: Replica, _values: Values, back: str) -> Dialog:
    says = [_in_flight(row), _("They are ended now. The deployment starts a new replica.")]
    return Dialog(
        _("Restart replica %(id)s") % {"id": row.pk}, _("Restart"), says,
        rest=rest.call("POST", f"replicas/{row.pk}/restart/"), danger=True, back=back,
    )  # fmt: skip


def _in_flight(row: Replica) -> str:
    if row.in_flight is None:
        return _("How many requests run on it is not known.")
    return ngettext("%(n)d request runs on it.", "%(n)d requests run on it.", row.in_flight) % {"n": row.in_flight}
