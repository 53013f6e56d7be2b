from __future__ import annotations

from dataclasses import replace

from controlplane.domain.footprint import cards
from controlplane.domain.ledger import what_if
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.ledger.setup import Setup
from tests.domain.ledger.setups import make_setup


def make_known_setup() -> Setup:
    return replace(make_setup(max_model_len=8192), card=cards.resolve("A100 80GB", None))


def test_the_triangle_has_every_corner() -> None:
    rows = what_if.triangle(make_setup(), lengths=(4096, 8192), sequences=(64, 256), utilizations=(0.5, 0.9))
    assert len(rows) == 8
    assert {row.fits for row in rows} == {True}


def test_a_larger_share_carries_more() -> None:
    low, high = what_if.triangle(make_setup(), lengths=(8192,), sequences=(256,), utilizations=(0.5, 0.9))
    assert low.kv_tokens is not None
    assert high.kv_tokens is not None
    assert low.kv_tokens < high.kv_tokens


def test_smaller_weights_leave_more_for_the_cache() -> None:
    rows = {(row.weights, row.kv): row for row in what_if.precision_table(make_known_setup())}
    tokens = [rows[name, "auto"].kv_tokens or 0 for name in ("bf16", "fp8", "int4")]
    assert tokens == sorted(tokens)
    assert (rows["bf16", "fp8"].kv_tokens or 0) >= 2 * tokens[0] - 32


def test_each_row_says_what_the_card_does_and_what_to_look_out_for() -> None:
    rows = {(row.weights, row.kv): row for row in what_if.precision_table(make_known_setup())}
    bf16, int4 = rows["bf16", "auto"], rows["int4", "fp8"]
    assert bf16.support is not None
    assert bf16.support.level == "native"
    assert bf16.caution == ""
    assert "quality" in int4.caution
    assert "keys and values" in int4.caution


def test_an_unknown_precision_is_a_row_with_its_reason() -> None:
    (row,) = what_if.precision_table(make_setup(), weights=("int17",), kv=("auto",))
    assert row.fits is None
    assert "int17" in row.refusal


def test_expected_speed_comes_from_outside() -> None:
    def tpot(ledger: Ledger) -> float:
        return ledger.budget.weights_bytes / 2e12

    rows = what_if.precision_table(make_setup(), weights=("bf16", "int4"), kv=("auto",), expected_tpot=tpot)
    assert rows[0].tpot_s is not None
    assert rows[1].tpot_s is not None
    assert rows[1].tpot_s < rows[0].tpot_s
    assert what_if.precision_table(make_setup(), weights=("bf16",))[0].tpot_s is None
