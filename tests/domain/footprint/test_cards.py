from __future__ import annotations

import pytest

from controlplane.domain.errors import RefusedError
from controlplane.domain.footprint import cards

GIB = 2**30


def test_a_measured_size_goes_first() -> None:
    card = cards.resolve("H100 80GB", 79.2)
    assert card.total_bytes == round(79.2 * GIB)
    assert card.assumption == ""


def test_a_known_card_is_looked_up() -> None:
    card = cards.resolve("NVIDIA H100 80GB HBM3", None)
    assert card.total_bytes is not None
    assert 79 < card.total_bytes / GIB < 80
    assert "gpu_memory_total_gib is not given" in card.assumption


def test_a_size_in_the_name_is_better_than_nothing() -> None:
    card = cards.resolve("24GB card", None)
    assert card.total_bytes is not None
    assert 23 < card.total_bytes / GIB < 24


def test_of_several_cards_the_smallest_counts() -> None:
    card = cards.resolve("RTX 5070 Ti 16GB + RTX 5090 32GB", None)
    assert card.total_bytes is not None
    assert 15 < card.total_bytes / GIB < 16.1


def test_a_card_nobody_knows_is_refused() -> None:
    with pytest.raises(RefusedError) as refused:
        cards.resolve("Flux Capacitor", None)
    assert "gpu" in refused.value.fields


def test_the_refusal_of_an_unknown_card_names_what_may_be_meant() -> None:
    with pytest.raises(RefusedError) as refused:
        cards.resolve("RTX 3060 Laptop GPU", None)
    assert "RTX-3060" in refused.value.fields["gpu"]


def test_what_is_not_known_of_a_card_with_a_measured_size_is_told() -> None:
    assert "number formats were not checked" in cards.resolve("Flux Capacitor", 24.0).assumption


def test_an_unknown_card_does_not_matter_when_the_cache_is_given() -> None:
    assert cards.resolve("Flux Capacitor", None, needed=False).total_bytes is None


def test_a_name_that_says_nothing_is_no_card() -> None:
    assert cards.resolve("unknown?", None).total_bytes is None


def test_no_card_is_no_memory() -> None:
    assert cards.resolve(None, None).total_bytes is None
