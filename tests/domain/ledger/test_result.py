from __future__ import annotations

import pytest

from controlplane.domain.footprint import cards
from controlplane.domain.ledger import result
from tests.domain.ledger.setups import GIB, make_card, make_model, make_setup, make_state_model, make_window_model


def test_tokens_are_blocks_of_16() -> None:
    """8B on an RTX 3090 with prompts of 20,000 tokens. Logged: 3.81 GiB, 1,952 blocks, 1.56 requests."""
    ledger = result.work_out(
        make_setup(
            version="0.6.4", engine="V0", card=cards.resolve("RTX 3090", 23.58), utilization=0.9, max_model_len=20000
        )
    )
    assert ledger.available_bytes is not None
    assert ledger.available_bytes / GIB == pytest.approx(3.81, rel=0.03)
    assert ledger.blocks == pytest.approx(1952, rel=0.03)
    assert ledger.concurrency(20000) == pytest.approx(1.56, rel=0.03)
    assert ledger.tokens == (ledger.blocks or 0) * 16


def test_hybrids_of_old_engines_print_the_tokens_of_one_group() -> None:
    """gpt-oss-120b on an H100. Logged: 8.99 GiB of cache are 130,960 tokens."""
    ledger = result.work_out(
        make_setup(
            make_window_model(),
            version="0.11.2",
            card=make_card(79.2, "H100"),
            max_model_len=98304,
            kv_cap_bytes=int(8.99 * GIB),
        )
    )
    assert ledger.tokens == pytest.approx(130_960, rel=0.001)
    assert ledger.kv_bytes_per_token == 73728


def test_hybrids_of_new_engines_print_concurrency_times_length() -> None:
    """Qwen3.6-27B on two RTX 3090. Logged: 9.84 GiB, 619,202 tokens, 2.36 requests of 262,144."""
    ledger = result.work_out(
        make_setup(
            make_state_model(quantization="int4"),
            version="0.21",
            card=make_card(23.58, "RTX 3090"),
            kv_cache_dtype="fp8_e5m2",
            tensor_parallel=2,
            max_model_len=262144,
            kv_cap_bytes=int(9.84 * GIB),
        )
    )
    assert ledger.tokens == pytest.approx(619_202, rel=0.002)
    assert ledger.concurrency(262144) == pytest.approx(2.36, abs=0.01)


def test_concurrency_is_told_at_typical_lengths() -> None:
    ledger = result.work_out(make_setup(max_model_len=8192))
    assert [length for length, _ in ledger.concurrency_by_length] == [1024, 2048, 4096, 8192]
    counts = [requests for _, requests in ledger.concurrency_by_length]
    assert counts == sorted(counts, reverse=True)


def test_the_ceiling_is_the_smaller_of_batch_and_cache() -> None:
    ledger = result.work_out(make_setup(max_model_len=8192, max_num_seqs=64, kv_cap_bytes=16 * GIB))
    assert ledger.concurrency_ceiling(2048) == 64
    assert ledger.concurrency_ceiling(8192) == 16
    assert result.work_out(make_setup(card=make_card(None, ""))).concurrency_ceiling(2048) is None


def test_a_model_without_a_cache_is_no_error() -> None:
    ledger = result.work_out(make_setup(make_model(layers=()), max_model_len=512))
    assert ledger.verdict.fits
    assert ledger.needed_bytes == 0
    assert ledger.concurrency(512) is None
