"""What one replica carries, from a prediction, a measurement, or a practitioner's rule of thumb."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.figures import figure


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a model. `requests_per_s` within the objective, before any safety factor; `source` says whence.

    `in_flight` requests at that rate; times where they are known.
    """

    requests_per_s: float
    cards: int
    source: str
    in_flight: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    nodes: int = 1  # that one replica spans, where more than its cards alone would take


def from_card_rate(requests_per_s_a_card: float, *, cards: int = 1) -> Replica:
    """A replica of `cards` cards of which each carries so many requests a second, as somebody measured."""
    bounds = Bounds("capacity")
    bounds.number("requests_per_s_a_card", requests_per_s_a_card, 0, 1e6, above=True)
    bounds.count("cards", cards, 1, 4096)
    bounds.settle()
    source = f"As given, {figure(requests_per_s_a_card)} requests/s a card."
    return Replica(requests_per_s_a_card * cards, cards, source)


def from_token_rate(tokens_per_s_a_card: float, output_tokens: float, *, cards: int = 1) -> Replica:
    """A replica of which each card writes so many tokens a second, for answers of a mean length.

    requests/s = tokens/s / tokens an answer: 100 / 500 = 0.2 requests/s a card. Popular guides read that as "0.2 users
    a card". It is a rate, not a number of people. By Little's law, requests in flight = rate x time of an answer: alone
    on the card an answer takes 500 / 100 = 5 s, and 0.2/s x 5 s = 1 is in flight at all times. With n at once each
    takes n times as long, and 0.2/s x 5n s = n are in flight. People read and think between two questions: with one a
    minute 0.2/s x 60 s = 12 people keep the card busy, with one in ten minutes 120.
    """
    bounds = Bounds("capacity")
    bounds.number("tokens_per_s_a_card", tokens_per_s_a_card, 0, 1e9, above=True)
    bounds.number("output_tokens", output_tokens, 1, 2e7)
    bounds.count("cards", cards, 1, 4096)
    bounds.settle()
    rate = tokens_per_s_a_card / output_tokens
    alone_s, asking = figure(output_tokens / tokens_per_s_a_card), figure(people(rate, 60.0))
    each, tokens, answer = figure(rate), figure(tokens_per_s_a_card), figure(output_tokens)
    source = (
        f"{tokens} tokens/s / {answer} tokens an answer = {each} requests/s a card. This is a rate, "
        f'not "{each} users": {each}/s x {alone_s} s an answer = 1 answer is always being written (n at once take n '
        f"times as long), and people who ask once a minute number {each}/s x 60 s = {asking}."
    )
    return Replica(rate * cards, cards, source)


def people(requests_per_s: float, seconds_between_requests: float) -> float:
    """How many people make a rate, each asking once in so many seconds (Little's law)."""
    bounds = Bounds("capacity")
    bounds.number("requests_per_s", requests_per_s, 0, 1e9)
    bounds.number("seconds_between_requests", seconds_between_requests, 0, 1e9, above=True)
    bounds.settle()
    return requests_per_s * seconds_between_requests
