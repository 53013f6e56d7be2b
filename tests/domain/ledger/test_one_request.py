from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.footprint.cards import Card
from controlplane.domain.ledger import result
from controlplane.domain.specs.model import ModelFacts
from tests.domain.ledger.setups import (
    GIB,
    make_card,
    make_latent_model,
    make_model,
    make_setup,
    make_state_model,
    make_window_model,
)

MODELS = [
    make_model(max_position_embeddings=None),
    make_window_model(),
    make_state_model(max_position_embeddings=None),
    make_latent_model(),
]


def test_what_fits_says_by_which_sum() -> None:
    verdict = result.work_out(make_setup(max_model_len=8192)).verdict
    assert (verdict.fits, verdict.reason) == (True, "fits")
    assert "1.00 GiB for one request of 8192 tokens" in verdict.sentence


def test_too_long_a_request_is_refused_with_the_longest_that_fits() -> None:
    ledger = result.work_out(make_setup(card=make_card(22.07, "A10G"), max_model_len=131072))
    assert (ledger.verdict.fits, ledger.verdict.reason) == (False, "one_request")
    assert ledger.longest_tokens is not None
    assert 20_000 < ledger.longest_tokens < 40_000


@pytest.mark.parametrize("version", ["0.6.3", "0.11.0", "0.32.0"])
@pytest.mark.parametrize("card", [make_card(), make_card(None, "")])
def test_a_length_beyond_the_models_own_is_refused_as_engines_do_whatever_the_memory(version: str, card: Card) -> None:
    ledger = result.work_out(make_setup(version=version, card=card, max_model_len=131073, kv_cap_bytes=40 * GIB))
    assert (ledger.verdict.fits, ledger.verdict.reason) == (False, "length")
    assert "max_model_len 131073 is more than the 131072 tokens" in ledger.verdict.sentence
    assert "Set at most 131072" in ledger.verdict.sentence
    assert ledger.longest_tokens == 131072
    assert result.work_out(make_setup(version=version, max_model_len=131072)).verdict.fits


@pytest.mark.parametrize(
    ("model", "wishes"),
    [(make_model(length_is_certain=False), {}), (make_model(), {"overrides_config": True}),
     (make_model(max_position_embeddings=None), {})],
)  # fmt: skip
def test_a_length_is_not_refused_where_the_models_own_is_not_known(model: ModelFacts, wishes: dict[str, Any]) -> None:
    assert result.work_out(make_setup(model, max_model_len=140_000, **wishes)).verdict.fits


def test_weights_that_are_larger_than_the_card_are_refused_first() -> None:
    ledger = result.work_out(make_setup(card=make_card(11.0, "GTX 1080 Ti")))
    assert (ledger.verdict.fits, ledger.verdict.reason) == (False, "weights")
    assert ledger.longest_tokens == 0


def test_a_share_below_the_weights_leaves_no_room() -> None:
    ledger = result.work_out(make_setup(utilization=0.15, max_model_len=8192))
    assert (ledger.verdict.fits, ledger.verdict.reason) == (False, "no_room_for_cache")


def test_memory_that_others_hold_is_missing_at_the_start() -> None:
    ledger = result.work_out(make_setup(foreign_bytes=20 * GIB, max_model_len=8192))
    assert (ledger.verdict.fits, ledger.verdict.reason) == (False, "free_memory")


def test_a_cap_beyond_the_card_is_refused() -> None:
    ledger = result.work_out(make_setup(kv_cap_bytes=70 * GIB, max_model_len=8192))
    assert (ledger.verdict.fits, ledger.verdict.reason) == (False, "cap")


def test_nothing_is_said_without_a_card() -> None:
    ledger = result.work_out(make_setup(card=make_card(None, ""), max_model_len=8192))
    assert (ledger.verdict.fits, ledger.verdict.reason) == (None, "unknown")


@pytest.mark.parametrize(
    ("model", "refused"),
    [(make_latent_model(parameters=700_000_000_000), True), (make_model(parameters=700_000_000_000), False)],
)
def test_a_cache_that_is_too_small_however_many_cards_share_is_refused(model: ModelFacts, refused: bool) -> None:
    """Latents lie whole on each card, so the number of cards does not matter; key-value heads are split."""
    given: dict[str, Any] = {
        "tensor_parallel": None,
        "ranks_must_be_known": False,
        "kv_cap_bytes": GIB // 2,
        "max_model_len": 20_000,
    }
    verdict = result.work_out(make_setup(model, **given)).verdict
    assert verdict.fits is (False if refused else None)
    assert verdict.reason == ("one_request" if refused else "unknown")


def test_a_length_that_was_not_given_may_be_shortened() -> None:
    short = result.work_out(make_setup(card=make_card(22.07, "A10G"), length_must_fit=False))
    assert short.verdict.fits
    assert short.setup.max_model_len < 131072
    assert any("was taken instead" in note for note in short.assumptions)


def test_old_pipelines_compared_the_whole_model_with_one_stage() -> None:
    old, new = (
        result.work_out(make_setup(version=version, pipeline_parallel=2, max_model_len=8192))
        for version in ("0.15", "0.16")
    )
    assert old.needed_bytes == 2 * new.needed_bytes


def test_a_refusal_by_the_whole_model_says_so() -> None:
    told = {
        version: result.work_out(
            make_setup(version=version, pipeline_parallel=2, card=make_card(14.0), max_model_len=40_000)
        ).verdict
        for version in ("0.15", "0.16")
    }
    assert told["0.15"].fits is False
    assert "all layers were compared with the memory of one stage" in told["0.15"].sentence
    assert told["0.16"].fits is True


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("version", ["0.7.2", "0.11.0", "0.21.0", "0.32.0"])
@given(length=st.integers(1, 200_000))
def test_a_cache_of_what_one_request_needs_is_the_border(model: ModelFacts, version: str, length: int) -> None:
    needed = result.work_out(make_setup(model, version=version, card=make_card(None, ""), max_model_len=length))
    block = needed.checked.null_blocks * needed.checked.bytes_per_block
    for share, fits in ((1.0, True), (0.98, False)):
        cap = int(needed.needed_bytes * share) + (block if fits else 0)
        setup = make_setup(
            model, version=version, card=make_card(None, ""), max_model_len=length, kv_cap_bytes=max(1, cap)
        )
        assert result.work_out(setup).verdict.fits is fits


def test_the_sum_that_fails_adds_up_with_everything_in_it() -> None:
    setup = make_setup(utilization=0.15, max_model_len=8192, adapters=4, reserve_bytes=7 * GIB)
    sentence = result.work_out(setup).verdict.sentence
    left, _, right = sentence.partition(" = ")
    first, *others = (float(number) for number in re.findall(r"\d+\.\d\d", left))
    outcome = re.search(r"-?\d+\.\d\d", right)
    assert outcome is not None and first - sum(others) == pytest.approx(float(outcome[0]), abs=0.05), sentence


def test_a_block_that_the_engine_holds_back_is_told_and_tells_why_the_need_alone_is_too_little() -> None:
    given: dict[str, Any] = {"version": "0.32.0", "max_model_len": 4096}
    short = result.work_out(make_setup(kv_cap_bytes=GIB // 2, **given)).verdict
    assert short.sentence == (
        "0.500 GiB for one request of 4096 tokens is more than the 0.498 GiB left for the cache beside one block of "
        "2.00 MiB that the engine holds back."
    )
    enough = result.work_out(make_setup(kv_cap_bytes=GIB // 2 + 2 * 2**20, **given)).verdict
    assert enough.fits is True
    assert "beside one block of 2.00 MiB" in enough.sentence
    older = result.work_out(make_setup(kv_cap_bytes=GIB // 2, **{**given, "version": "0.31.0"})).verdict
    assert older.sentence == "0.50 GiB for one request of 4096 tokens; 0.50 GiB are left for the cache."


def test_two_sizes_that_differ_read_differently() -> None:
    verdict = result.work_out(make_setup(version="0.11.0", max_model_len=4096, kv_cap_bytes=GIB // 2 - 2**20)).verdict
    assert "0.500 GiB for one request of 4096 tokens is more than the 0.499 GiB left" in verdict.sentence
