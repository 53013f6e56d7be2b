from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.ledger import budget
from controlplane.domain.ledger.corrections import Correction
from tests.domain.ledger.setups import GIB, make_card, make_model, make_setup


def test_what_stays_is_what_was_asked_for_without_the_rest() -> None:
    found = budget.work_out(make_setup(utilization=0.9))
    assert found.available_bytes is not None
    assert found.requested_bytes is not None
    assert found.available_bytes == found.requested_bytes - found.before_cache_bytes


def test_graphs_come_on_top_before_0_21() -> None:
    old, new = (budget.work_out(make_setup(version=version)) for version in ("0.20", "0.21"))
    assert (old.graphs_inside, new.graphs_inside) == (False, True)
    assert old.available_bytes is not None
    assert new.available_bytes == old.available_bytes - new.graphs_bytes


def test_a_cap_takes_the_place_of_the_budget() -> None:
    found = budget.work_out(make_setup(kv_cap_bytes=10 * GIB))
    assert (found.available_bytes, found.capped) == (10 * GIB, True)


def test_a_cap_may_be_a_share_of_the_card() -> None:
    found = budget.work_out(make_setup(card=make_card(80.0), kv_cap_share=0.25))
    assert found.available_bytes == 20 * GIB


def test_without_a_card_nothing_is_said_about_the_cache() -> None:
    assert budget.work_out(make_setup(card=make_card(None, ""))).available_bytes is None


def test_a_reserve_is_taken_off() -> None:
    with_reserve = budget.work_out(make_setup(reserve_bytes=GIB)).available_bytes
    without = budget.work_out(make_setup()).available_bytes
    assert with_reserve is not None
    assert without is not None
    assert without - with_reserve == GIB


@given(st.floats(0.1, 0.9), st.integers(0, 10), st.integers(0, 8))
def test_the_parts_of_a_card_add_up_to_it(utilization: float, foreign_gib: int, adapters: int) -> None:
    setup = make_setup(utilization=utilization, foreign_bytes=foreign_gib * GIB, adapters=adapters, enforce_eager=True)
    found = budget.work_out(setup)
    sizes = sum(part.size_bytes for part in found.parts)
    if all(part.name != "unused" for part in found.parts):
        assert sizes >= (found.total_bytes or 0)
    else:
        assert sizes == found.total_bytes


def test_a_correction_changes_weights_and_the_rest() -> None:
    setup = make_setup()
    plain, corrected = budget.work_out(setup), budget.work_out(setup, Correction(1.01, GIB, 3))
    assert corrected.weights_bytes > plain.weights_bytes
    assert corrected.activation_bytes - plain.activation_bytes == GIB


@given(st.floats(0.1, 1.0), st.integers(1, 4096), st.integers(1, 65536))
def test_the_sum_always_closes(utilization: float, sequences: int, tokens: int) -> None:
    tokens = max(tokens, sequences)  # fewer are refused
    setup = make_setup(utilization=utilization, max_num_seqs=sequences, max_num_batched_tokens=tokens)
    found = budget.work_out(setup)
    assert found.available_bytes is not None
    assert found.available_bytes + found.before_cache_bytes == found.requested_bytes


def test_positions_are_tabled_even_where_the_models_limit_is_not_known() -> None:
    """8B: sines and cosines of 131,072 positions take 0.03 GiB, which are more than a refused start once lacked."""
    known, unknown = make_model(max_position_embeddings=131072), make_model(max_position_embeddings=None)
    tables = {
        length: budget.work_out(make_setup(unknown, max_model_len=length)).weights.rotary_bytes
        for length in (2048, 32768, 131072)
    }
    whole = budget.work_out(make_setup(known, max_model_len=2048)).weights.rotary_bytes
    assert tables[131072] == whole == 131072 * 128 * 2
    assert tables[2048] == tables[32768] == whole // 4
