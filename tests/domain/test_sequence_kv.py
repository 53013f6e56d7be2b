from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.sequence_kv import SequenceKv

KINDS = st.builds(SequenceKv, st.integers(0, 8192), st.sampled_from([0.0, 0.125, 0.5, 1.0]), st.integers(0, 2000))


def test_tokens_beyond_the_window_count_for_the_layers_that_keep_them() -> None:
    kept = SequenceKv(window_tokens=1000, beyond_share=0.25, fixed_tokens=40)
    assert [kept.held_tokens(tokens) for tokens in (0, 600, 1000, 3000)] == [40, 640, 1040, 1540]


def test_each_sequence_has_a_window_of_its_own() -> None:
    kept = SequenceKv(window_tokens=1000, beyond_share=0.0, fixed_tokens=40)
    assert kept.held_tokens(4000, sequences=4) == 4 * 1040 and kept.held_tokens(4000) == 1040


@given(KINDS, st.integers(0, 1_000_000), st.integers(0, 1_000_000))
def test_a_longer_sequence_never_holds_less(kept: SequenceKv, one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert kept.held_tokens(low) <= kept.held_tokens(high)


@given(KINDS, st.integers(0, 1_000_000))
def test_the_longest_that_fits_is_the_longest(kept: SequenceKv, capacity: int) -> None:
    longest = kept.longest_tokens(capacity)
    if longest is None:
        assert kept.held_tokens(10**12) <= capacity
    elif longest:
        assert kept.held_tokens(longest) <= capacity < kept.held_tokens(longest + 9)
