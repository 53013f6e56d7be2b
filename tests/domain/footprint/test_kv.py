from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.footprint import kv
from controlplane.domain.footprint.engine_rules import rules_for
from controlplane.domain.footprint.kv import KvBucket
from controlplane.domain.specs import known_models, kv_precision
from controlplane.domain.specs.model import Layers
from tests.domain.ledger.setups import make_latent_model, make_model, make_state_model, make_window_model

BF16 = kv_precision.parse("auto", model_dtype="bf16")
FP8 = kv_precision.parse("fp8", model_dtype="bf16")
NEW = rules_for("0.32.0")


def token_bytes(buckets: tuple[KvBucket, ...]) -> int:
    return sum(bucket.layers * bucket.token_bytes for bucket in buckets)


def test_a_token_of_grouped_attention_takes_keys_and_values_of_its_heads() -> None:
    found = kv.buckets(make_model().layers, tensor_parallel=1, precision=BF16, rules=NEW)
    assert token_bytes(found) == 32 * 2 * 8 * 128 * 2


def test_fp8_halves_it() -> None:
    found = kv.buckets(make_model().layers, tensor_parallel=1, precision=FP8, rules=NEW)
    assert token_bytes(found) == 32 * 2 * 8 * 128


def test_heads_are_copied_once_there_are_more_ranks_than_heads() -> None:
    layers = make_model().layers
    eight, sixteen = (
        token_bytes(kv.buckets(layers, tensor_parallel=ranks, precision=BF16, rules=NEW)) for ranks in (8, 16)
    )
    assert eight == sixteen == 32 * 2 * 128 * 2


def test_latent_attention_is_not_split() -> None:
    layers = make_latent_model().layers
    for ranks in (1, 8):
        assert token_bytes(kv.buckets(layers, tensor_parallel=ranks, precision=BF16, rules=NEW)) == 27 * 1152


def test_0_7_aligned_latent_entries() -> None:
    found = kv.buckets(make_latent_model().layers, tensor_parallel=1, precision=BF16, rules=rules_for("0.7.2"))
    assert token_bytes(found) == 27 * 1280


def test_sparse_attention_keeps_its_indexers_keys_beside_packed_entries() -> None:
    layers = (Layers("mla", 61, latent_elements=576, indexer_elements=128),)
    packed = kv_precision.parse("fp8_ds_mla", model_dtype="bf16")
    found = kv.buckets(layers, tensor_parallel=8, precision=packed, rules=NEW)
    assert token_bytes(found) == 61 * (656 + 132)


def test_windows_of_old_engines_hold_whole_requests() -> None:
    found = kv.buckets(make_window_model().layers, tensor_parallel=1, precision=BF16, rules=rules_for("0.8.2"))
    assert {(bucket.kind, bucket.layers) for bucket in found} == {("full", 36)}


def test_a_state_is_split_over_ranks_and_grows_with_drafts() -> None:
    layers = make_state_model().layers
    plain, drafting = (
        kv.buckets(layers, tensor_parallel=2, precision=FP8, rules=NEW, draft_tokens=tokens)[0] for tokens in (0, 3)
    )
    assert plain.state_bytes == (3 * 10240 * 2 + 48 * 128 * 128 * 4) // 2
    assert drafting.state_bytes == (6 * 10240 * 2 + 48 * 128 * 128 * 4) // 2


def test_a_stage_keeps_its_own_layers() -> None:
    found = kv.buckets(make_model().layers, tensor_parallel=1, precision=BF16, rules=NEW, stages=4)
    assert token_bytes(found) == 8 * 2 * 8 * 128 * 2


@given(st.sampled_from([1, 2, 4, 8, 16, 32]), st.integers(1, 64), st.sampled_from([64, 96, 128, 256]))
def test_ranks_together_hold_at_least_the_whole_cache(ranks: int, layers: int, head_dim: int) -> None:
    model = (Layers("full", layers, kv_heads=8, head_dim=head_dim),)
    whole = token_bytes(kv.buckets(model, tensor_parallel=1, precision=BF16, rules=NEW))
    part = token_bytes(kv.buckets(model, tensor_parallel=ranks, precision=BF16, rules=NEW))
    assert whole <= part * ranks
    assert (whole == part * ranks) is (ranks <= 8)


def make_chunked() -> tuple[Layers, ...]:
    """Llama 4 Scout."""
    return (
        Layers("full", 12, kv_heads=8, head_dim=128),
        Layers("chunked", 36, kv_heads=8, head_dim=128, window_tokens=8192),
    )


@pytest.mark.parametrize(
    ("version", "eagle", "cut"),
    [
        ("0.9.1", False, False),
        ("0.9.2", False, True),
        ("0.10.0", False, True),
        ("0.10.1", False, False),  # off for its latency
        ("0.11.2", False, False),
        ("0.13.0", False, True),
        ("0.32.0", False, True),
        ("0.32.0", True, False),
    ],
)
def test_chunked_attention_holds_its_chunk_where_the_engine_cuts_it_off(version: str, eagle: bool, cut: bool) -> None:
    found = kv.buckets(make_chunked(), tensor_parallel=8, precision=BF16, rules=rules_for(version), eagle=eagle)
    assert ("chunked" in {bucket.kind for bucket in found}) is cut


def test_v0_keeps_blocks_for_layers_that_attend_to_an_image_too() -> None:
    facts = known_models.find("meta-llama/Llama-3.2-11B-Vision-Instruct")
    assert facts is not None
    old, new = (
        token_bytes(kv.buckets(facts.layers, tensor_parallel=1, precision=BF16, rules=rules_for(version)))
        for version in ("0.6.3", "0.11.0")
    )
    assert (old, new) == (40 * 4096, 32 * 4096)
