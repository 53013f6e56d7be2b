"""What admission does for goodput, in virtual time: see `virtual_engine`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from controlplane.domain.admission.seats import SeatLimits, Seats
from tests.domain.admission.virtual_engine import Gated, Lengths, Sequence, Slo, VirtualEngine, arrivals, bare

SECONDS = 60.0
SEEDS = (1, 2, 3)
DESIGN = ((45, 175), (20, 60))
LONG = ((200, 800), (100, 300))
SHORT = ((20, 60), (8, 24))
Slowness = Callable[[float], float]


def steady(_: float) -> float:
    return 1.0


def by_turns(at: float) -> float:
    """A neighbour takes most of the machine every other 20 s."""
    return 2.5 if int(at // 20) % 2 else 1.0


def jitter(at: float) -> float:
    """Each step takes another time, the same in each run."""
    return random.Random(int(at * 1e6)).lognormvariate(0.0, 0.3)


def good(requests: Iterable[Sequence], slo: Slo) -> int:
    return sum(slo.is_met(one) for one in requests)


def best_of_bare(
    lengths: tuple[Lengths, Lengths], slowness: Slowness, max_num_seqs: int, slo: Slo
) -> tuple[float, float]:
    """Returns (good requests a second at the best rate, that rate)."""
    found = []
    prompt, output = (sum(one) / 2 for one in lengths)
    capacity = 1.0 / (0.00065 * prompt + 0.0018 * output)
    for share in (0.4, 0.6, 0.7, 0.8, 0.9, 1.0):
        rate, sums = capacity * share, 0
        for seed in SEEDS:
            requests = arrivals(rate, SECONDS, seed, *lengths)
            bare(VirtualEngine(max_num_seqs=max_num_seqs, slowness=slowness), requests)
            sums += good(requests, slo)
        found.append((sums / SECONDS / len(SEEDS), rate))
    return max(found)


def run_gated(
    rate: float, lengths: tuple[Lengths, Lengths], slowness: Slowness, max_num_seqs: int, slo: Slo
) -> list[Sequence]:
    found = []
    for seed in SEEDS:
        requests = arrivals(rate, SECONDS, seed, *lengths)
        seats = Seats.start(SeatLimits(4, max_num_seqs), is_promised=True)
        Gated(VirtualEngine(max_num_seqs=max_num_seqs, slowness=slowness), slo, seats=seats).run(requests)
        found += requests
    return found


@pytest.mark.parametrize("times", [1.5, 2.3, 3.0])
@pytest.mark.parametrize("max_num_seqs", [16, 256])
@pytest.mark.parametrize("slowness", [steady, jitter], ids=["steady", "jitter"])
@pytest.mark.parametrize("lengths", [DESIGN, SHORT], ids=["design", "short"])
def test_an_overloaded_engine_stays_at_its_best_goodput(
    lengths: tuple[Lengths, Lengths], slowness: Slowness, max_num_seqs: int, times: float
) -> None:
    slo = Slo()
    best, rate = best_of_bare(lengths, slowness, max_num_seqs, slo)
    requests = run_gated(times * rate, lengths, slowness, max_num_seqs, slo)
    whole = [one for one in requests if one.refused_at is None]
    told_s = [one.refused_at - one.arrived_at for one in requests if one.refused_at is not None]
    assert good(whole, slo) / SECONDS / len(SEEDS) >= 0.95 * best
    assert good(whole, slo) >= 0.96 * len(whole)
    assert told_s and max(told_s) <= slo.ttft_s + 1e-9


@pytest.mark.parametrize(
    ("lengths", "slowness", "least"),
    [(DESIGN, by_turns, 0.93), (LONG, steady, 0.88), (DESIGN, lambda _: 2.0, 0.9)],
    ids=["a neighbour by turns", "long prompts and answers", "a machine half as fast"],
)
def test_nearly_all_that_are_let_in_are_inside_their_objective_where_it_is_hard(
    lengths: tuple[Lengths, Lengths], slowness: Slowness, least: float
) -> None:
    slo = Slo()
    best, rate = best_of_bare(lengths, slowness, 256, slo)
    requests = run_gated(2.3 * rate, lengths, slowness, 256, slo)
    whole = [one for one in requests if one.refused_at is None]
    assert good(whole, slo) / SECONDS / len(SEEDS) >= 0.95 * best
    assert good(whole, slo) >= least * len(whole)
