"""External endpoints: whether they answer. Never started, stopped or placed; their probe alone moves their state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane import dispatch
from controlplane.deployments.models import Deployment, Engine, Replica, ReplicaState
from controlplane.deployments.services import steps
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor
from controlplane.lib import endpoint
from controlplane.lib.endpoint import Answered, Unusable
from controlplane.telemetry.services import notify
from engine_adapters.external import settings as external

ACTOR = Actor("system", "endpoint probe")
FAILURES_TO_FAIL = 2  # one answer that is late does not take a ready endpoint out
MOST_FAILURES_COUNTED = 1_000_000
AT_ONCE = 8
PROBE_EXPIRES_S = 15.0  # by then the next one is due
_READY: dict[str, Any] = {
    "attempt": 0, "reason_code": "answers", "reason_message": "The endpoint answers.", "reason_hint": "",
}  # fmt: skip


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
        answers = list(pool.map(_ask, [(_address(row), row.deployment.external_key) for row in rows]))
    return sum(_take_over(row, answer) for row, answer in zip(rows, answers, strict=True))


def ask_anew(deployment: Deployment) -> None:
    """Has an endpoint asked at once, as its key is another one. Called inside the transaction that changes the key.

    What was found out with the old key counts no more: one that failed is pending, and one that is ready fails with
    its first answer that is none. A probe that is on its way with the old key finds another row than it read.
    """
    living = Replica.objects.select_for_update().filter(deployment=deployment, ended_at=None, goal="run")
    for row in living.order_by("pk"):
        if row.state == ReplicaState.READY:
            Replica.objects.filter(pk=row.pk).update(attempt=FAILURES_TO_FAIL - 1)
            continue
        values = {"reason_code": "asked", "reason_message": "The key is a new one; the endpoint is asked again."}
        moved = row.state != ReplicaState.PENDING
        since = timezone.now() if moved else row.state_since
        Replica.objects.filter(pk=row.pk).update(
            state=ReplicaState.PENDING, state_since=since, attempt=row.attempt + 1, reason_hint="", **values
        )
        if moved:
            steps.write(
                replica_id=row.pk, from_state=row.state, to_state="pending", code=values["reason_code"],
                message=values["reason_message"],
            )  # fmt: skip
            notify.changed("replica", row.pk, "replica.pending")
    dispatch.send_on_commit(dispatch.PROBE_EXTERNAL, expires_s=PROBE_EXPIRES_S)


def _address(row: Replica) -> str:
    return external.api_url(row.revision.spec["external_url"])


def _ask(address: tuple[str, str]) -> Answered | Unusable:
    return endpoint.ask_models(*address)


@transaction.atomic
def _take_over(row: Replica, answer: Answered | Unusable) -> bool:
    answer = _with_the_model(row.revision.spec["served_model_name"], answer)
    if isinstance(answer, Answered):
        state, values = ReplicaState.READY, _READY
    else:
        failures = row.attempt + 1
        fails = row.state != ReplicaState.READY or failures >= FAILURES_TO_FAIL
        state = ReplicaState.FAILED if fails else ReplicaState.READY
        values = {
            "attempt": min(failures, MOST_FAILURES_COUNTED),
            "reason_code": answer.code,
            "reason_message": answer.message,
            "reason_hint": answer.hint,
        }
    moved = row.state != state
    if moved:
        values = values | {"state": state, "state_since": timezone.now()}
    # compare-and-set: another probe, or the controller, may have been quicker
    mine = Replica.objects.filter(pk=row.pk, ended_at=None, state=row.state, attempt=row.attempt)
    if not mine.update(**values) or not moved:
        return False
    _tell(row, state.value, values)
    return True


def _with_the_model(model: str, answer: Answered | Unusable) -> Answered | Unusable:
    """An endpoint that lists models, and not ours, would answer every request with an error. One that lists none is
    believed: some servers have no list."""
    if isinstance(answer, Unusable) or not answer.models or model in answer.models:
        return answer
    listed = f"{', '.join(answer.models[:5])}{' and more' if len(answer.models) > 5 else ''}"
    message = f"The endpoint answers, but does not list the model {model}."
    return Unusable("model_not_listed", message, f"It lists {listed}. Give one of these as the model's name.")


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
        deployment=row.deployment.name,
        message=values["reason_message"],
        numbers={"code": values["reason_code"]},
        level="error" if state == ReplicaState.FAILED else "info",
    )
    dispatch.wake_controller()
    notify.changed("replica", row.pk, f"replica.{state}")
    notify.changed("deployment", row.deployment.name, "deployment.replicas")
