"""External endpoints: whether they answer. Never started, stopped or placed; their probe alone moves their state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane import dispatch
from controlplane.deployments.models import Engine, Replica, ReplicaState
from controlplane.deployments.services import steps
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor
from controlplane.lib import endpoint
from controlplane.lib.endpoint import Answered, Unusable
from controlplane.telemetry.services import notify

ACTOR = Actor("system", "endpoint probe")
FAILURES_TO_FAIL = 2  # one answer that is late does not take a ready endpoint out
AT_ONCE = 8


def probe_all() -> int:
    """Asks every external endpoint that is in use; returns how many changed their state."""
    rows = list(
        Replica.objects.filter(deployment__engine=Engine.EXTERNAL, ended_at=None, goal="run").select_related(
            "deployment", "revision"
        )
    )
    if not rows:
        return 0
    with ThreadPoolExecutor(min(AT_ONCE, len(rows))) as pool:
        answers = list(
            pool.map(_ask, [(row.revision.spec["external_url"], row.deployment.external_key) for row in rows])
        )
    return sum(_take_over(row, answer) for row, answer in zip(rows, answers, strict=True))


def _ask(address: tuple[str, str]) -> Answered | Unusable:
    return endpoint.ask_models(*address)


@transaction.atomic
def _take_over(row: Replica, answer: Answered | Unusable) -> bool:
    if isinstance(answer, Answered):
        state, values = ReplicaState.READY, _ready(row.revision.spec["served_model_name"], answer)
    else:
        failures = row.attempt + 1
        fails = row.state != ReplicaState.READY or failures >= FAILURES_TO_FAIL
        state = ReplicaState.FAILED if fails else ReplicaState.READY
        values = {
            "attempt": failures,
            "reason_code": answer.code,
            "reason_message": answer.message,
            "reason_hint": answer.hint,
        }
    moved = row.state != state
    if moved:
        values |= {"state": state, "state_since": timezone.now()}
    # compare-and-set: another probe, or the controller, may have been quicker
    mine = Replica.objects.filter(pk=row.pk, ended_at=None, state=row.state, attempt=row.attempt)
    if not mine.update(**values) or not moved:
        return False
    _tell(row, state.value, values)
    return True


def _ready(model: str, answer: Answered) -> dict[str, Any]:
    message, hint = "The endpoint answers.", ""
    if answer.models and model not in answer.models:
        message = f"The endpoint answers, but does not list the model {model}."
        hint = f"It lists {', '.join(answer.models[:5])}{' and more' if len(answer.models) > 5 else ''}."
    return {"attempt": 0, "reason_code": "answers", "reason_message": message, "reason_hint": hint}


def _tell(row: Replica, state: str, values: dict[str, Any]) -> None:
    steps.write(
        replica_id=row.pk,
        from_state=row.state,
        to_state=state,
        code=values["reason_code"],
        message=values["reason_message"],
        hint=values["reason_hint"],
    )
    record.event(
        actor=ACTOR,
        verb=f"replica.{state}",
        object_kind="replica",
        object_id=row.pk,
        object_name=f"{row.deployment.name}/{row.pk}",
        message=values["reason_message"],
        numbers={"code": values["reason_code"]},
        level="error" if state == ReplicaState.FAILED else "info",
    )
    dispatch.wake_controller()
    notify.changed("replica", row.pk, f"replica.{state}")
    notify.changed("deployment", row.deployment.name, "deployment.replicas")
