from __future__ import annotations

import pytest

from controlplane.domain.ledger import corrections
from controlplane.domain.ledger.corrections import NO_CORRECTION, Comparison

GIB = 2**30


def make_comparison(weights: float | None = 10.2, cache: float | None = 29.0) -> Comparison:
    """10 GiB of weights and 30 of cache were predicted."""
    return Comparison(
        predicted_weights_bytes=10 * GIB,
        measured_weights_bytes=None if weights is None else round(weights * GIB),
        predicted_kv_bytes=30 * GIB,
        measured_kv_bytes=None if cache is None else round(cache * GIB),
    )


def test_nothing_is_learned_from_nothing() -> None:
    assert corrections.learn([]) == NO_CORRECTION
    assert corrections.learn([make_comparison(None, None)]) == NO_CORRECTION
    assert NO_CORRECTION.sentence == ""


def test_one_start_is_half_believed() -> None:
    found = corrections.learn([make_comparison()])
    assert found.weights_ratio == pytest.approx(1.01)
    assert found.other_bytes / GIB == pytest.approx(0.4)
    assert found.observations == 1


def test_many_starts_are_believed() -> None:
    found = corrections.learn([make_comparison()] * 19)
    assert found.weights_ratio == pytest.approx(1.019)
    assert found.other_bytes / GIB == pytest.approx(0.76)
    assert "19 measured starts" in found.sentence


def test_one_odd_start_moves_little() -> None:
    usual = corrections.learn([make_comparison()] * 8)
    odd = corrections.learn([*[make_comparison()] * 8, make_comparison(60.0, 1.0)])
    assert odd.weights_ratio == pytest.approx(usual.weights_ratio, abs=0.002)


def test_a_correction_stays_within_reason() -> None:
    assert corrections.learn([make_comparison(90.0, None)] * 9).weights_ratio == 1.25
