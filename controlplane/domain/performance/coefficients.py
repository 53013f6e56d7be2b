"""Learned efficiencies and overheads: few, shared by class.

A term's value is exp(base + sum of the logarithms of the classes that apply). `START` is where learning begins: plain
engineering guesses. `LEARNED` replaces it, see there for observations and errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

Coefficients = Mapping[str, float]  # "term" or "term:class" → natural logarithm

START: dict[str, float] = {
    "launch_s": -10.6,  # 25 us: kernels of one layer, not hidden behind anything
    "host_s": -7.6,  # 0.5 ms a step: scheduler, sampler, detokenizer
    "reduce_s": -12.0,  # 6 us: one round of an all-reduce
    "link": -0.7,  # share of the link's rate
    "weights": -0.36,  # share of memory bandwidth
    "experts": -0.7,
    "alike": -0.1,  # tokens choose alike: a batch touches as many experts as tokens ** exp(alike) independent ones
    "kv": -0.5,
    "compute": -0.7,  # share of the dense peak
    "compute:older": 0.4,  # cards with few FLOPs for their bandwidth are easier to keep busy
    "attention": -1.2,  # share of the dense peak, in attention over long prompts
    "sequence_s": -11.5,  # 10 us a request and step
    "interference": 0.0,  # of a prompt's time, what running requests feel
    "first_s": -3.7,  # 25 ms between arrival and first token besides computing
    "first": 0.0,  # of a prompt's time alone
    "wave": -2.3,  # share of requests that come all at once, because those before them ended together
    "accepted": 0.8,  # tokens a verification step yields
}


def share(coefficients: Coefficients, term: str, classes: tuple[str, ...]) -> float:
    """The term's value where it is a share of what the hardware can do: at most 1."""
    return min(1.0, value(coefficients, term, classes))


def value(coefficients: Coefficients, term: str, classes: tuple[str, ...]) -> float:
    """The term's value for these classes; a class that was never learned counts as average."""
    total = coefficients[term]
    for name in classes:
        total += coefficients.get(f"{term}:{name}", 0.0)
    return exp(total)
