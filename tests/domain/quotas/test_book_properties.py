"""Whatever gateways do, and whatever happens to their words to Valkey: never more than the limit and one slice each."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.quotas import slices
from controlplane.domain.quotas.answers import Granted, NeedsSlice
from controlplane.domain.quotas.book import SliceBook
from controlplane.domain.quotas.measures import MEASURES
from controlplane.domain.quotas.pool import Pool
from tests.domain.quotas.making import NOW, SHOP, make_quota

GATEWAYS = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["reserve", "reserve", "reserve", "settle", "refund", "sync", "lost", "unheard", "kill", "wait"]
        ),
        st.sampled_from(GATEWAYS),
        st.integers(min_value=1, max_value=40),
    ),
    min_size=20,
    max_size=120,
)


@dataclass
class World:
    """Three gateways and one limit; `used` is what was really spent, `running` what is open."""

    limit: int
    measure: str
    pool: Pool = field(default_factory=Pool)
    now: float = NOW
    count: int = 0
    used: int = 0
    unruly: set[str] = field(default_factory=set)  # that were killed or cut off
    deaths: int = 0

    def __post_init__(self) -> None:
        self.books = {name: self.make_book() for name in GATEWAYS}
        self.names = {name: name for name in GATEWAYS}

    def make_book(self) -> SliceBook:
        return SliceBook([make_quota("q", "shop", "", "", **{self.measure: self.limit})])

    @property
    def kind(self) -> str:
        return MEASURES[self.measure].kind

    def do(self, what: str, name: str, amount: int) -> None:
        book = self.books[name]
        if what == "reserve":
            self.reserve(name, amount)
        elif what in ("settle", "refund") and book.open:
            request_id = next(iter(book.open))
            estimate = book.open[request_id][2]
            if what == "settle":
                book.settle(request_id, estimate // 2, 0)
                self.used += estimate // 2
            else:
                book.refund(request_id)
        elif what == "sync":
            self.sync(name)
        elif what == "lost":  # the answer of Valkey does not arrive
            self.pool.sync(self.names[name], book.asks(self.now), self.now)
            book.failed(self.now)
        elif what == "unheard":
            book.asks(self.now)
            book.failed(self.now)
        elif what == "kill":
            self.deaths += 1
            self.used += sum(entry[2] for entry in book.open.values())  # it may have used all of that
            self.books[name] = self.make_book()
            self.names[name] = f"{name}{self.deaths}"
        elif what == "wait":
            self.now += amount / 20

    def do_in_touch(self, what: str, name: str, amount: int) -> None:
        if what not in ("kill", "unheard", "lost"):
            self.do(what, name, amount)
        for each in GATEWAYS if what == "wait" else ():
            self.sync(each)

    def reserve(self, name: str, amount: int) -> None:
        book = self.books[name]
        self.count += 1
        for _ in range(3):
            if not isinstance(book.reserve(str(self.count), SHOP, amount, 0, self.now), NeedsSlice):
                return
            asks = book.asks(self.now, hungry_only=True)
            book.answered(self.pool.sync(self.names[name], asks, self.now), self.now)

    def sync(self, name: str) -> None:
        book = self.books[name]
        book.answered(self.pool.sync(self.names[name], book.asks(self.now), self.now), self.now)

    def promised(self) -> int:
        return sum(entry[2] for book in self.books.values() for entry in book.open.values())


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_a_budget_is_not_overspent_while_all_gateways_are_in_touch(steps: list[tuple[str, str, int]]) -> None:
    world = World(40, "tokens_per_day")
    for what, name, amount in steps:
        world.do_in_touch(what, name, amount)
        for book in world.books.values():
            book.check_invariants()
        assert world.used + world.promised() <= world.limit


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_a_budget_is_overspent_by_at_most_a_slice_for_each_gateway_that_vanishes(
    steps: list[tuple[str, str, int]],
) -> None:
    world = World(300, "tokens_per_day")
    for what, name, amount in steps:
        world.do(what, name, amount)
        for book in world.books.values():
            book.check_invariants()
        lives = len(GATEWAYS) + world.deaths
        assert world.used + world.promised() <= world.limit + lives * slices.largest(world.limit, 1)


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_a_limit_a_minute_is_kept_with_what_flows_in(steps: list[tuple[str, str, int]]) -> None:
    world = World(120, "tokens_per_minute")
    for what, name, amount in steps:
        world.do_in_touch(what, name, amount)
        flowed_in = (world.now - NOW) * world.limit / 60
        held = len(GATEWAYS) * slices.largest(world.limit, len(GATEWAYS))  # taken earlier, of what flowed in then
        assert world.used + world.promised() <= world.limit + flowed_in + held + 1


@pytest.mark.parametrize("measure", ["concurrent_requests", "tokens_per_day", "tokens_per_minute"])
@given(steps=STEPS)
@settings(max_examples=80, deadline=None)
def test_at_rest_nothing_is_reserved_and_what_is_out_is_what_was_used(
    measure: str, steps: list[tuple[str, str, int]]
) -> None:
    world = World(300, measure)
    for what, name, amount in steps:
        if what != "kill":
            world.do(what, name, amount)
    for name, book in world.books.items():
        for request_id in list(book.open):
            book.refund(request_id)
        book.check_invariants()
        assert all(meter.reserved == 0 for meter in book.meters.values())
        world.sync(name)
    world.now += 30
    for _ in range(2):
        for name in world.books:
            world.sync(name)
    left = {meter.stock for book in world.books.values() for meter in book.meters.values()}
    assert left == {0}
    out = sum(shared.out for shared in world.pool.limits.values())
    if world.kind == "day":
        assert out == world.used
    elif world.kind == "held":
        assert out == 0


@given(STEPS)
@settings(max_examples=100, deadline=None)
def test_no_more_run_at_once_than_may(steps: list[tuple[str, str, int]]) -> None:
    world = World(5, "concurrent_requests")
    for what, name, amount in steps:
        world.do_in_touch(what, name, amount)
        assert sum(len(book.open) for book in world.books.values()) <= 5


def test_a_reservation_is_granted_as_soon_as_there_is_room() -> None:
    world = World(300, "tokens_per_day")
    for _ in range(10):
        world.do("reserve", "a", 30)
    world.do("refund", "a", 1)
    assert isinstance(world.books["a"].reserve("x", SHOP, 30, 0, world.now), Granted)
