from __future__ import annotations

import re
from typing import Any

import pytest

from controlplane.domain.ledger import advice, result
from controlplane.domain.ledger.advice import Advice, Starting
from controlplane.domain.specs.model import ModelFacts
from tests.domain.ledger.setups import GIB, make_model, make_setup


def advices(model: ModelFacts | None = None, **wishes: Any) -> tuple[Advice, ...]:
    return result.work_out(make_setup(model, **wishes)).advice


def codes(model: ModelFacts | None = None, **wishes: Any) -> set[str]:
    return {given.code for given in advices(model, **wishes)}


def test_a_large_cap_is_risky_while_activations_are_unknown() -> None:
    assert "large_cache" in codes(kv_cap_bytes=45 * GIB)
    assert "large_cache" not in codes(kv_cap_bytes=45 * GIB, max_num_batched_tokens=2048)
    assert "large_cache" not in codes(kv_cap_bytes=20 * GIB)


def test_a_large_cache_without_a_cap_is_told_too_and_what_to_rely_on() -> None:
    (found,) = [one for one in advices(utilization=0.9) if one.code == "large_cache"]
    assert found.field == "max_num_batched_tokens"
    assert "rely on 40 to 50 %" in found.sentence
    assert "large_cache" not in codes(utilization=0.9, max_num_batched_tokens=2048)
    assert "large_cache" not in codes(utilization=0.5)


def test_high_shares_are_risky_with_long_contexts() -> None:
    assert "high_utilization" in codes(utilization=0.95, max_model_len=131072)
    assert "high_utilization" not in codes(utilization=0.95, max_model_len=8192)
    assert "high_utilization" not in codes(utilization=0.92, max_model_len=131072)


def test_batches_beyond_the_cache_are_told() -> None:
    assert "max_num_seqs_beyond_cache" in codes(max_num_seqs=512, mean_request_tokens=8000)
    assert "max_num_seqs_beyond_cache" not in codes(max_num_seqs=16, mean_request_tokens=8000)


def test_graphs_beside_the_budget_need_their_room() -> None:
    assert "graphs_beside_budget" in codes(utilization=1.0)
    assert "graphs_beside_budget" not in codes(utilization=0.9)
    assert "graphs_beside_budget" not in codes(utilization=1.0, enforce_eager=True)


def test_full_cards_are_told() -> None:
    assert "full_card" in codes(utilization=0.9)
    assert "full_card" not in codes(utilization=0.7)


@pytest.mark.parametrize(
    "wishes", [{"utilization": 0.97}, {"utilization": 0.9}, {"utilization": 0.9, "foreign_bytes": 3 * GIB}]
)
def test_advice_on_a_full_card_names_the_utilization_that_gets_below(wishes: dict[str, Any]) -> None:
    (found,) = [one for one in advices(**wishes) if one.code == "full_card"]
    named = re.search(r"A utilization of (\d\.\d\d) gets below, with (\d+\.\d) GiB of cache", found.sentence)
    assert named
    lower = float(named[1])
    assert "full_card" not in codes(**{**wishes, "utilization": lower})
    assert "full_card" in codes(**{**wishes, "utilization": lower + 0.02})


def test_advice_on_a_full_card_names_the_cap_that_gets_below() -> None:
    (found,) = [one for one in advices(kv_cap_bytes=56 * GIB) if one.code == "full_card"]
    named = re.search(r"A cap of (\d+\.\d) GiB gets below", found.sentence)
    assert named and found.field == "kv_cache_memory_bytes"
    cap = float(named[1])
    assert "full_card" not in codes(kv_cap_bytes=int(cap * GIB))
    assert "full_card" in codes(kv_cap_bytes=int((cap + 0.2) * GIB))


def test_weights_that_fill_a_card_alone_are_not_helped_by_a_smaller_cache() -> None:
    (found,) = [one for one in advices(foreign_bytes=60 * GIB, utilization=0.9) if one.code == "full_card"]
    assert "Without a cache it would be too" in found.sentence


def test_a_replica_beside_others_that_start_is_told_that_it_waits_and_why() -> None:
    beside = [Starting("r1", "chat", 1), Starting("r2", "code", 1)]
    (found,) = advice.in_turn(beside)
    assert (found.code, found.field) == ("two_starts_on_one_card", "accelerator")
    assert "Replica r1 of chat and 1 more was starting" in found.sentence
    assert "measures free memory while it starts" in found.sentence
    assert advice.in_turn([]) == ()


def test_before_a_placement_the_cards_on_which_others_start_are_counted() -> None:
    (found,) = advice.would_wait([Starting("r1", "chat", 1), Starting("r1", "chat", 2), Starting("r2", "code", 2)], 8)
    assert "on 2 of 8 cards of this make, such as replica r1 of chat" in found.sentence
    assert advice.would_wait([], 8) == ()


def test_a_length_beyond_what_is_known_of_the_model_is_told_where_it_may_be_more() -> None:
    tune = make_model(length_is_certain=False)
    assert "length_beyond_model" in codes(tune, max_model_len=1_000_000)
    assert "length_beyond_model" in codes(max_model_len=1_000_000, overrides_config=True)
    assert "length_beyond_model" not in codes(tune, max_model_len=8192)
    assert "length_beyond_model" not in codes(max_model_len=1_000_000)  # refused outright, and the verdict says so


def test_a_cap_beyond_the_card_is_told_as_that() -> None:
    assert "cap_beyond_card" in codes(kv_cap_bytes=70 * GIB)
    assert "cap_beyond_card" not in codes(kv_cap_bytes=20 * GIB)
