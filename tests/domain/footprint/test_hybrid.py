from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.footprint import hybrid, kv
from controlplane.domain.footprint.engine_rules import EngineRules, rules_for
from controlplane.domain.footprint.hybrid import KvLayout
from controlplane.domain.specs import known_models, kv_precision
from controlplane.domain.specs.model import Layers, ModelFacts, StateShape
from tests.domain.ledger.setups import make_latent_model, make_model, make_state_model, make_window_model

GIB = 2**30


def make_layout(
    model: ModelFacts,
    rules: EngineRules,
    *,
    kv_cache_dtype: str = "auto",
    tensor_parallel: int = 1,
    batched_tokens: int = 2048,
    draft_tokens: int = 0,
) -> KvLayout:
    kinds = kv_precision.parse(kv_cache_dtype, model_dtype="bf16")
    found = kv.buckets(
        model.layers, tensor_parallel=tensor_parallel, precision=kinds, rules=rules, draft_tokens=draft_tokens
    )
    return hybrid.layout(found, rules, batched_tokens=batched_tokens)


def test_a_uniform_model_has_one_group() -> None:
    layout = make_layout(make_model(), rules_for("0.11.0"))
    assert (layout.bytes_per_block, layout.block_tokens, len(layout.groups)) == (16 * 131072, 16, 1)
    assert not layout.hybrid


@pytest.mark.parametrize(("version", "engine", "blocks"), [("0.11.0", "V1", 28 + 128), ("0.8.5", "V0", 28)])
def test_a_decoder_beside_an_encoder_holds_its_tokens_and_room_for_a_step_of_the_encoders(
    version: str, engine: str, blocks: int
) -> None:
    """In V1 as a group of its own in the same pool; in V0 the layers shared each block's bytes."""
    model = known_models.find("openai/whisper-large-v3")
    assert model is not None
    layout = make_layout(model, rules_for(version, engine))
    assert layout.bytes_per_block == 32 * 16 * 2 * 20 * 64 * 2
    assert layout.blocks_for(448) == blocks


def test_latent_attention_has_blocks_of_64_tokens() -> None:
    assert make_layout(make_latent_model(), rules_for("0.11.0")).block_tokens == 64


def test_half_windows_make_two_groups() -> None:
    """gpt-oss-120b: 589,824 bytes a block, and 8,713 blocks for 131,072 tokens with 8,192 in flight."""
    layout = make_layout(make_window_model(), rules_for("0.11.2"), batched_tokens=8192)
    assert layout.bytes_per_block == 589_824
    assert layout.blocks_for(131_072) == 8713


def test_asynchronous_scheduling_holds_two_batches_in_a_window() -> None:
    layout = make_layout(make_window_model(num_hidden_layers=24), rules_for("0.19"), batched_tokens=2048)
    assert layout.blocks_for(131_072) == 8192 + -(-(127 + 4096) // 16) + 1


def test_a_page_of_attention_holds_a_state() -> None:
    """Qwen3.6-27B with FP8 keys on two cards: blocks of 1,568 tokens, 25,690,112 bytes, two states a request."""
    layout = make_layout(make_state_model(), rules_for("0.21"), kv_cache_dtype="fp8", tensor_parallel=2)
    assert (layout.block_tokens, layout.bytes_per_block, len(layout.groups)) == (1568, 25_690_112, 4)
    assert layout.blocks_for(262_144) == 174


def test_drafts_make_the_page_larger() -> None:
    layout = make_layout(make_state_model(), rules_for("0.21"), kv_cache_dtype="fp8", tensor_parallel=2, draft_tokens=3)
    assert layout.block_tokens == 1600


def test_states_took_one_block_before_their_prefixes_were_cached() -> None:
    layout = make_layout(make_state_model(), rules_for("0.19"), kv_cache_dtype="fp8", tensor_parallel=2)
    assert layout.blocks_for(262_144) == 171


def test_the_last_group_is_padded() -> None:
    """gemma-3-1b: 22 layers with a window beside 4 without make 6 groups of them, two layers padded."""
    layers = (
        Layers("full", 4, kv_heads=1, head_dim=256),
        Layers("sliding", 22, kv_heads=1, head_dim=256, window_tokens=512),
    )
    layout = make_layout(make_model(layers=layers), rules_for("0.11.0"))
    assert (len(layout.groups), layout.padded_layers) == (7, 2)


def test_smaller_pages_get_more_tokens() -> None:
    """gemma-4-31B on two cards: a page of full attention holds 32 tokens, one with a window 16."""
    layers = (
        Layers("full", 10, kv_heads=4, head_dim=512),
        Layers("sliding", 50, kv_heads=16, head_dim=256, window_tokens=1024),
    )
    layout = make_layout(make_model(layers=layers), rules_for("0.21"), tensor_parallel=2)
    assert sorted({group.block_tokens for group in layout.groups}) == [16, 32]
    assert layout.bytes_per_block == 10 * 131_072


def test_the_newest_engine_keeps_a_block_back() -> None:
    old, new = (make_layout(make_model(), rules_for(version)) for version in ("0.30", "0.32"))
    assert old.longest_tokens(GIB) - new.longest_tokens(GIB) == 16


def test_nothing_fits_into_nothing() -> None:
    layout = make_layout(make_model(), rules_for("0.11.0"))
    assert layout.longest_tokens(0) == 0
    assert layout.longest_tokens(-GIB) == 0
    assert layout.pool_blocks(-GIB) == 0


@pytest.mark.parametrize("model", [make_model(), make_window_model(), make_state_model(), make_latent_model()])
@given(available=st.integers(0, 200 * GIB))
def test_the_longest_request_fits_and_one_token_more_does_not(model: ModelFacts, available: int) -> None:
    layout = make_layout(model, rules_for("0.32.0"))
    longest = layout.longest_tokens(available)
    usable = layout.usable_bytes(available)
    assert longest == 0 or layout.needed_bytes(longest) <= usable
    assert layout.needed_bytes(longest + 1) > usable


@given(st.integers(1, 1_000_000), st.integers(1, 1_000_000))
def test_a_longer_request_never_needs_less(one: int, other: int) -> None:
    layout = make_layout(make_window_model(), rules_for("0.21"))
    low, high = sorted((one, other))
    assert layout.blocks_for(low) <= layout.blocks_for(high)


@pytest.mark.parametrize(
    ("name", "groups", "padded"),
    [
        ("google/gemma-3-27b-it", 7, 8),
        ("google/gemma-3-1b-it", 7, 2),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", 4, 1),
        ("nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16", 7, 3),
    ],
)
def test_layers_are_padded_as_engines_logged_it(name: str, groups: int, padded: int) -> None:
    model = known_models.find(name)
    assert model is not None
    layout = make_layout(model, rules_for("0.13.0"))
    assert (len(layout.groups), layout.padded_layers) == (groups, padded)


def test_gemma_3_carries_what_its_engine_logged() -> None:
    """89,994 blocks. Logged: 205,696 tokens, 50.05 requests of 4,096 tokens."""
    model = known_models.find("google/gemma-3-27b-it")
    assert model is not None
    layout = make_layout(model, rules_for("0.11.0"), batched_tokens=8192)
    assert 89_994 // len(layout.groups) * layout.block_tokens == 205_696
    assert 89_994 / layout.blocks_for(4096) == pytest.approx(50.05, abs=0.005)


def test_a_chunk_begins_with_a_block() -> None:
    facts = known_models.find("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    assert facts is not None
    found = make_layout(facts, rules_for("0.32.0"), tensor_parallel=8, batched_tokens=8192)
    of_full, of_chunks = 12 * 512 * 1_000_000, 36 * 512 * (8192 + 2 * 8192)
    assert found.needed_bytes(1_000_000) == of_full + of_chunks
    assert found.needed_bytes(16) == 48 * 512 * 16


@pytest.mark.parametrize(("version", "blocks"), [("0.19.0", 1), ("0.30.0", 2), ("0.32.0", 3)])
def test_mamba_2_holds_a_block_more_since_a_prefill_exports_its_state(version: str, blocks: int) -> None:
    model = known_models.find("nvidia/NVIDIA-Nemotron-Nano-9B-v2")
    assert model is not None
    layout = make_layout(model, rules_for(version))
    assert {group.state_blocks for group in layout.groups if not group.block_tokens} == {blocks}


@pytest.mark.parametrize("name", ["Qwen/Qwen3.6-27B", "ai21labs/AI21-Jamba-Mini-1.7", "LiquidAI/LFM2-1.2B"])
def test_other_states_hold_two_blocks_in_0_32_as_before(name: str) -> None:
    model = known_models.find(name)
    assert model is not None
    layout = make_layout(model, rules_for("0.32.0"))
    assert {group.state_blocks for group in layout.groups if not group.block_tokens} == {2}


def test_a_small_zamba_and_a_small_minicpm_3_hold_as_many_requests_as_the_engine_said() -> None:
    """Started on vLLM 0.32 on CPU cores, in a cache of 1 GiB and blocks of 128: 97.50 and 170.62 requests of 1024."""
    state = StateShape(3 * 544, 8 * 64 * 16, ssm_dtype_bytes=2)
    zamba = (Layers("mamba2", 6, state=state), Layers("full", 3, kv_heads=4, head_dim=128))
    minicpm = (Layers("full", 4, kv_heads=4, head_dim=96),)
    for layers, requests in ((zamba, 97.50), (minicpm, 170.62)):
        kinds = kv_precision.parse("auto", model_dtype="bf16")
        found = kv.buckets(layers, tensor_parallel=1, precision=kinds, rules=rules_for("0.32.0"))
        layout = hybrid.layout(found, rules_for("0.32.0"), batched_tokens=2048, block_tokens=128, plans_ahead=False)
        assert layout.pool_blocks(GIB) == 1365
        assert 1365 / layout.blocks_for(1024) == pytest.approx(requests, abs=0.006)
