"""One tenant with a thousand requests at once beside a small one, against ten equal tenants with the same load."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

import pytest

from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.queueing import Admission
from controlplane.domain.admission.ticket import Answer, Dispatch, Refusal
from tests.domain.admission.making import LATE, make_admission, make_ticket

SEATS = 16


@dataclass
class World:
    """A replica in which a request takes 1 s on average."""

    admission: Admission
    ends: list[tuple[float, str]] = field(default_factory=list)
    waited: dict[str, float] = field(default_factory=dict)
    came: dict[str, float] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    patience_s: float = 1e6
    chance: random.Random = field(default_factory=lambda: random.Random(3))

    def take(self, answers: list[Answer], now: float) -> None:
        for one in answers:
            if isinstance(one, Dispatch):
                self.waited[one.ticket.id] = now - self.came[one.ticket.id]
                heapq.heappush(self.ends, (now + self.chance.uniform(0.5, 1.5), one.ticket.id))
            elif isinstance(one, Refusal):
                self.refused.append(one.ticket.id)

    def run(self, arrivals: list[tuple[float, str, str]]) -> None:
        for at, name, tenant in sorted(arrivals):
            self.until(at)
            self.came[name] = at
            ticket = make_ticket(name, tenant, arrived_at=at, wait_until=at + self.patience_s)
            self.take(self.admission.arrive(ticket, at), at)
        self.until(float("inf"))

    def until(self, at: float) -> None:
        while self.ends and self.ends[0][0] <= at:
            now, name = heapq.heappop(self.ends)
            self.take(self.admission.ended(name, now, 200), now)


def p95(world: World, tenant: str) -> float:
    waits = sorted(wait for name, wait in world.waited.items() if name.startswith(tenant))
    return waits[int(0.95 * (len(waits) - 1))]


def small(count: int = 40) -> list[tuple[float, str, str]]:
    return [(LATE + 1 + number * 0.5, f"small-{number}", "small") for number in range(count)]


@pytest.mark.parametrize("capacity", [None, 2000])
def test_a_greedy_tenant_hardly_delays_another(capacity: int | None) -> None:
    """Whether it takes all seats, or all KV tokens before the seats are taken."""
    greedy, equal = (World(make_admission(SEATS, capacity=capacity, policy=Policy())) for _ in range(2))
    greedy.run([*((LATE, f"greedy-{n}", "greedy") for n in range(1000)), *small()])
    equal.run([*((LATE, f"t{n % 10}-{n}", f"t{n % 10}") for n in range(1000)), *small()])
    assert len(greedy.waited) == len(equal.waited) == 1040, "everybody is served in the end"
    assert p95(greedy, "small") <= 0.3
    assert p95(greedy, "small") <= 2 * p95(equal, "small")
    assert p95(greedy, "greedy") > 30


def some_at_once(seconds: int) -> list[tuple[float, str, str]]:
    """A tenant that asks twice a second, with pauses and crowds as they come."""
    chance = random.Random(5)
    return [(LATE + 5 + chance.uniform(0, seconds), f"small-{number}", "small") for number in range(2 * seconds)]


def test_who_asks_little_is_hardly_ever_refused_beside_a_thousand_of_another() -> None:
    """Though it has some running already, and may wait no longer than a first token may take."""
    world = World(make_admission(10, policy=Policy()), patience_s=0.5)
    world.run([*((LATE + n / 100, f"greedy-{n}", "greedy") for n in range(20_000)), *some_at_once(190)])
    refused = [name for name in world.refused if name.startswith("small")]
    assert len(refused) <= 0.03 * 380, f"{len(refused)} of 380"
    assert p95(world, "small") <= 0.35
    served = sum(name.startswith("greedy") for name in world.waited)
    assert served >= 0.9 * (9 * 200 - 380), "the others lose no more than what is kept"
