"""Small makers for tests of admission."""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.queueing import Admission
from controlplane.domain.admission.ticket import Answer, Dispatch, Ticket

LATE = 1000.0  # long after replicas have come, so that none of them starts slowly


def make_ticket(name: str = "t1", tenant: str = "ada", tier: str = "standard", **given: object) -> Ticket:
    base = Ticket(name, tenant, tier, 100, 100, LATE, LATE + 30.0, 1000)
    return replace(base, **given)  # type: ignore[arg-type]


def make_admission(
    seats: int = 4, *, replicas: int = 1, capacity: int | None = 10_000, policy: Policy | None = None
) -> Admission:
    made = Admission(policy or Policy())
    names = [f"r{number}" for number in range(replicas)]
    made.set_replicas(dict.fromkeys(names, seats), dict.fromkeys(names, capacity), 0.0)
    return made


def ask(admission: Admission, ticket: Ticket, now: float = LATE) -> Answer:
    """The answer to this very request."""
    answer = admission.arrive(ticket, now)[-1]
    admission.check_invariants()
    return answer


def dispatched(answers: list[Answer]) -> list[str]:
    return [one.ticket.id for one in answers if isinstance(one, Dispatch)]
