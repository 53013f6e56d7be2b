"""What an engine says of its cache counts beside what is reserved in it."""

from __future__ import annotations

import pytest

from controlplane.domain.admission.engine_caches import EngineCache, EngineCaches
from controlplane.domain.admission.place import Place
from controlplane.domain.admission.ticket import Dispatch, Queued
from tests.domain.admission.making import LATE, ask, make_admission, make_ticket


def test_what_is_used_beyond_the_reservations_is_taken_off_the_capacity() -> None:
    caches, admission = EngineCaches(), make_admission(seats=8)
    assert caches.of("r0").look(200, 0.5, 10_000)
    assert caches.of("r0").unseen_tokens == 4500, "in steps of a twentieth"
    admission.set_replicas({"r0": 8}, {"r0": 10_000}, LATE, caches.added_to({"r0": (1, 500)}))
    for each, answer in ((make_admission(seats=8), Dispatch), (admission, Queued)):
        ask(each, make_ticket("a", output_tokens=2900))
        assert isinstance(ask(each, make_ticket("b", "eve", output_tokens=2900)), answer)
    place = admission.places["r0"]
    assert (place.whole_tokens, place.elsewhere_tokens, place.seats) == (10_000, 5000, 7)


def test_a_figure_from_before_a_request_ended_takes_nothing_off() -> None:
    cache = EngineCache()
    assert not cache.look(8000, 0.7, 10_000)
    assert not cache.look(0, 0.7, 10_000), "it is late, not more"
    assert [cache.look(0, 0.7, 10_000) for _ in range(5)] == [False] * 4 + [True]
    assert cache.unseen_tokens == 5000


def test_a_figure_that_is_wrong_takes_no_more_than_half_of_a_cache() -> None:
    cache = EngineCache()
    cache.look(0, 1.0, 1000)
    assert cache.unseen_tokens == 500


@pytest.mark.parametrize(("usage", "capacity"), [(None, 1000), (0.9, None), (0.04, 1000)])
def test_what_is_not_told_or_hardly_more_takes_nothing_off(usage: float | None, capacity: int | None) -> None:
    cache = EngineCache(unseen_tokens=50)
    assert cache.look(0, usage, capacity) and cache.unseen_tokens == 0


def test_preemptions_are_counted_once_and_what_is_not_told_is_not_0() -> None:
    cache = EngineCache()
    assert cache.preempted_by_now(None) == 0 and cache.preempted is None
    assert [cache.preempted_by_now(so_far) for so_far in (3.0, 3.0, None, 5.0)] == [3, 0, 0, 2]


def test_a_replica_that_is_gone_is_forgotten() -> None:
    caches = EngineCaches()
    caches.of("r0").look(0, 1.0, 1000)
    caches.keep_only(["r1"])
    assert caches.added_to({}) == {}


def test_a_request_goes_where_least_is_held_whoever_holds_it() -> None:
    admission = make_admission(replicas=2, seats=8)
    ask(admission, make_ticket("a"))
    held = {"r0": (0, 0), "r1": (1, 4000)}
    admission.set_replicas(dict.fromkeys(held, 8), dict.fromkeys(held, 10_000), LATE, held)
    answer = ask(admission, make_ticket("b", "eve"))
    assert isinstance(answer, Dispatch) and answer.replica_id == "r0", "4000 are held in r1 by others"


def test_where_no_engine_tells_of_tokens_the_seats_of_others_count() -> None:
    place = Place("r0", 2, 0.0, elsewhere_seats=6)
    assert place.load() == 0.75
