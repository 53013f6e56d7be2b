"""Whatever comes in whatever order: nothing is lost, nothing leaks, nobody is served twice or late."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controlplane.domain.admission.policy import Policy, TenantShare
from controlplane.domain.admission.queueing import Admission
from controlplane.domain.admission.ticket import Answer, Dispatch, Queued, Refusal
from controlplane.domain.admission.tiers import BATCH, INTERACTIVE, STANDARD
from tests.domain.admission.making import LATE, make_admission, make_ticket

TENANTS = ["ada", "bob", "eve"]
TIERS = ["interactive", "standard", "batch"]
SMALL_QUEUES = {
    tier.name: replace(tier, queue_most=3, queue_most_bytes=4500) for tier in (INTERACTIVE, STANDARD, BATCH)
}
POLICY = Policy(SMALL_QUEUES, shares={"ada": TenantShare(2.0, 0.5, 1.0), "eve": TenantShare(1.0, 0.0, 0.5)})


class Asking(RuleBasedStateMachine):
    """Every answer is checked against what was known before it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = LATE
        self.number = 0
        self.admission = make_admission(3, replicas=2, capacity=1500, policy=POLICY)
        self.state: dict[str, str] = {}  # ticket -> waiting | running | refused | over
        self.due: dict[str, float] = {}

    def take(self, answers: list[Answer]) -> None:
        for answer in answers:
            name = answer.ticket.id
            match answer:
                case Dispatch():
                    assert self.state[name] in ("asking", "waiting"), f"{name} was {self.state[name]}"
                    assert self.due[name] > self.now or self.state[name] == "asking", "an expired one was dispatched"
                    self.state[name] = "running"
                case Queued():
                    self.state[name] = "waiting"
                case Refusal():
                    assert self.state[name] in ("asking", "waiting")
                    self.state[name] = "refused"

    def some(self, state: str, pick: int) -> str | None:
        names = sorted(name for name, now in self.state.items() if now == state)
        return names[pick % len(names)] if names else None

    @rule(
        who=st.tuples(st.sampled_from(TENANTS), st.sampled_from(TIERS)),
        tokens=st.tuples(st.integers(1, 800), st.integers(0, 2000)),
        patience=st.sampled_from([0.5, 2.0, 60.0]),
        session=st.sampled_from(["", "s"]),
        size=st.tuples(st.sampled_from([1, 1, 2, 7]), st.sampled_from([0, 1000, 1000, 4000])),
    )
    def arrives(
        self,
        who: tuple[str, str],
        tokens: tuple[int, int],
        patience: float,
        session: str,
        size: tuple[int, int],
    ) -> None:
        (tenant, tier), (prompt, output), (sequences, body_bytes) = who, tokens, size
        self.take(self.admission.tick(self.now))
        self.number += 1
        name = f"q{self.number:04d}"
        self.state[name], self.due[name] = "asking", self.now + patience
        ticket = make_ticket(
            name, tenant, tier, prompt_tokens=prompt, output_tokens=output, arrived_at=self.now,
            wait_until=self.due[name], affinity=session, sequences=sequences, body_bytes=body_bytes,
        )  # fmt: skip
        answers = self.admission.arrive(ticket, self.now)
        assert answers[-1].ticket is ticket
        self.take(answers)

    @rule(pick=st.integers(0, 50), used=st.sampled_from([None, 10, 5000]))
    def ends(self, pick: int, used: int | None) -> None:
        name = self.some("running", pick)
        if name:
            self.state[name] = "over"
            self.take(self.admission.tick(self.now))
            self.take(self.admission.ended(name, self.now, used))

    @rule(pick=st.integers(0, 50))
    def leaves(self, pick: int) -> None:
        name = self.some("waiting", pick)
        if name:
            assert self.admission.abandoned(name)
            self.state[name] = "over"

    @rule(pick=st.integers(0, 50), tokens=st.integers(0, 3000))
    def grows(self, pick: int, tokens: int) -> None:
        name = self.some("running", pick)
        if name:
            self.admission.grew(name, tokens)

    @rule(seats=st.dictionaries(st.sampled_from(["r0", "r1", "r2"]), st.integers(0, 5)))
    def replicas_change(self, seats: dict[str, int]) -> None:
        self.take(self.admission.tick(self.now))
        self.take(self.admission.set_replicas(seats, dict.fromkeys(seats, 1500), self.now))

    @rule(replica=st.sampled_from(["r0", "r1"]))
    def rests(self, replica: str) -> None:
        self.admission.rest(replica, self.now + 3)

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.take(self.admission.tick(self.now))

    @invariant()
    def nothing_is_lost(self) -> None:
        self.admission.check_invariants()
        assert set(self.admission.seated) == {name for name, now in self.state.items() if now == "running"}
        assert set(self.admission.waiting) == {name for name, now in self.state.items() if now == "waiting"}

    def teardown(self) -> None:
        self.now += 10_000
        self.take(self.admission.tick(self.now))
        while name := self.some("running", 0):
            self.ends(0, None)
            del name
        is_at_rest(self.admission)


def is_at_rest(admission: Admission) -> None:
    assert not admission.seated and not admission.waiting and not len(admission.queue)
    assert not admission.tenants.running and not admission.tenants.kv and not admission.serving.taken
    for place in admission.places.values():
        assert (place.ledger.reserved_tokens, place.ledger.by_tier, place.running) == (0, {}, 0)


TestAsking = Asking.TestCase
TestAsking.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(
    lines=st.lists(st.tuples(st.sampled_from([0.5, 1.0, 4.0]), st.integers(1, 900), st.integers(0, 6)), max_size=6),
    served=st.lists(st.integers(0, 5), max_size=12),
    own=st.integers(0, 4),
)
def test_as_many_are_said_to_be_ahead_as_then_go_before(
    lines: list[tuple[float, int, int]], served: list[int], own: int
) -> None:
    """While nobody comes or leaves, and each tenant's requests are all alike. Equal tags may go either way."""
    shares = {f"t{number}": TenantShare(weight=weight) for number, (weight, _, _) in enumerate(lines)}
    admission = make_admission(1, capacity=None, policy=Policy(shares=shares, kept_seats=0))
    for turn, number in enumerate(served):  # so that some have had more than others
        if number < len(lines):
            admission.arrive(make_ticket(f"s{turn}", f"t{number}", prompt_tokens=lines[number][1]), LATE)
            admission.ended(f"s{turn}", LATE)
    admission.arrive(make_ticket("runs", "other"), LATE)
    for number, (_, tokens, count) in enumerate(lines):
        for one in range(count):
            admission.arrive(make_ticket(f"t{number}-{one}", f"t{number}", prompt_tokens=tokens), LATE)
    answers = [
        admission.arrive(make_ticket(f"own-{one}", "own", wait_until=LATE + 1e6), LATE)[-1] for one in range(own + 1)
    ]
    last = answers[-1]
    assert isinstance(last, Queued)
    before, running = 0, "runs"
    while (running := admission.ended(running, LATE)[0].ticket.id) != f"own-{own}":
        before += 1
    equals = sum(count > 0 for _, _, count in lines)
    assert before <= last.ahead <= before + equals


def test_after_thousands_of_random_aborts_every_counter_is_0() -> None:
    chance = random.Random(7)
    admission = make_admission(8, replicas=3, capacity=4000)
    running: list[str] = []
    waiting: list[str] = []
    now = LATE
    for number in range(5000):
        now += chance.expovariate(50)
        ticket = make_ticket(
            f"q{number}", chance.choice(TENANTS), chance.choice(TIERS), prompt_tokens=chance.randrange(1, 500),
            output_tokens=chance.randrange(1, 800), arrived_at=now, wait_until=now + chance.random() * 3,
            sequences=chance.choice([1, 1, 3, 20]),
        )  # fmt: skip
        answers = admission.arrive(ticket, now) + admission.tick(now)
        if running and chance.random() < 0.7:
            answers += admission.ended(running.pop(chance.randrange(len(running))), now, chance.choice([None, 50, 900]))
        if waiting and chance.random() < 0.3:
            admission.abandoned(waiting.pop(chance.randrange(len(waiting))))
        running += [one.ticket.id for one in answers if isinstance(one, Dispatch)]
        waiting = list(admission.waiting)
        assert set(running) == set(admission.seated)
    admission.check_invariants()
    admission.tick(now + 100)
    for name in list(admission.seated):
        admission.ended(name, now + 100)
    admission.tick(now + 200)
    for name in list(admission.seated):
        admission.ended(name, now + 200)
    is_at_rest(admission)
