"""Short descriptions of an architecture."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import architecture

LLAMA = {
    "total_params": 8_030_261_248, "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336, "vocab_size": 128256,
    "tie_word_embeddings": False, "attention": "gqa",
}  # fmt: skip


def make_fields(**changes: Any) -> dict[str, Any]:
    return {**LLAMA, **changes}


def test_grouped_heads_are_read() -> None:
    facts = architecture.read(LLAMA, name="llama")
    assert [(kind.kind, kind.count, kind.kv_heads, kind.head_dim) for kind in facts.layers] == [("full", 32, 8, 128)]
    assert facts.parameters == facts.active_parameters == 8_030_261_248
    assert facts.embedding_parameters == 2 * 128256 * 4096


def test_a_latent_cache_is_one_vector_a_token() -> None:
    facts = architecture.read(make_fields(attention="mla", kv_lora_rank=512, qk_rope_head_dim=64))
    assert [(kind.kind, kind.latent_elements) for kind in facts.layers] == [("mla", 576)]


def test_windows_and_full_layers_add_up() -> None:
    facts = architecture.read(make_fields(sliding_attention_layers=16, full_attention_layers=16, sliding_window=128))
    assert [(kind.kind, kind.count, kind.window_tokens) for kind in facts.layers] == [
        ("sliding", 16, 128),
        ("full", 16, None),
    ]


def test_states_have_a_size_of_their_own() -> None:
    facts = architecture.read(
        make_fields(
            full_attention_layers=8, linear_attention_layers=24, linear_num_key_heads=16, linear_num_value_heads=32,
            linear_key_head_dim=128, linear_value_head_dim=128,
        )
    )  # fmt: skip
    state = facts.layers[0].state
    assert state is not None
    assert (state.conv_elements, state.ssm_elements) == (3 * 8192, 32 * 128 * 128)


def test_idle_experts_are_not_active() -> None:
    facts = architecture.read(make_fields(num_experts=8, experts_per_tok=2, moe_intermediate_size=512))
    assert facts.experts is not None
    assert facts.experts.routed_params == 32 * 8 * 3 * 4096 * 512
    assert facts.active_parameters == facts.parameters - facts.experts.routed_params * 6 // 8


def test_unknown_widths_are_said() -> None:
    facts = architecture.read(
        make_fields(hidden_size=None, num_attention_heads=None, num_key_value_heads=None, head_dim=None)
        | {"full_kv_heads": 2, "full_head_dim": 512}
    )
    assert facts.layers[0].head_dim == 512
    assert any("hidden_size" in sentence for sentence in facts.assumptions)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"total_params": None}, "architecture.total_params"),
        ({"total_params": -1}, "architecture.total_params"),
        ({"num_hidden_layers": "32"}, "architecture.num_hidden_layers"),
        ({"head_dim": float("nan")}, "architecture.head_dim"),
        ({"num_key_value_heads": 5}, "architecture.num_key_value_heads"),
        ({"full_attention_layers": 33}, "architecture.full_attention_layers"),
        ({"mamba_layers": 33}, "architecture.mamba_layers"),
        ({"mamba_layers": 4096, "mlp_layers": 40}, "architecture.mamba_layers"),
        ({"mlp_layers": 30, "mamba_layers": 3}, "architecture.mlp_layers"),
        ({"linear_attention_layers": 40}, "architecture.linear_attention_layers"),
        ({"sliding_attention_layers": 40, "sliding_window": 128}, "architecture.sliding_attention_layers"),
        ({"num_experts": 8, "experts_per_tok": 9}, "architecture.experts_per_tok"),
        ({"hidden_size": 1e30}, "architecture.hidden_size"),
        ({"tie_word_embeddings": "no"}, "architecture.tie_word_embeddings"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(RefusedError) as refused:
        architecture.read(make_fields(**changes))
    assert list(refused.value.fields) == [field]


@given(st.dictionaries(st.sampled_from([*LLAMA, "kv_lora_rank", "num_experts", "mamba_layers"]), st.from_type(object)))
def test_whatever_stands_there_is_read_or_refused(changes: dict[str, Any]) -> None:
    try:
        assert architecture.read(make_fields(**changes)).parameters > 0
    except RefusedError as refused:
        assert refused.fields
