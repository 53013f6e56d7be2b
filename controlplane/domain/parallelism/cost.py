"""What tokens cost on rented cards."""

from __future__ import annotations

SECONDS_PER_HOUR = 3600.0
MILLION = 1e6


def per_million_tokens(cards: int, price_per_hour: float | None, tokens_per_s: float) -> float | None:
    """Price of a million tokens: cards x price an hour / tokens an hour. None without a price or without tokens.

    Cards that are held cost whether they work or not: at low load a token is dear.
    """
    if price_per_hour is None or not tokens_per_s > 0:
        return None
    return cards * price_per_hour / (tokens_per_s * SECONDS_PER_HOUR) * MILLION
