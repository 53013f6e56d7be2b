"""Models and set-ups for tests of the latency model."""

from __future__ import annotations

from typing import Any

from controlplane.domain.performance.number_formats import WeightFormat, parse
from controlplane.domain.performance.setup import Setup
from controlplane.domain.specs import accelerators
from controlplane.domain.specs.accelerator import AcceleratorFacts
from controlplane.domain.specs.model import Experts, Layers, ModelFacts


def make_dense(parameters: int = 13_000_000_000, *, kv_heads: int = 40, name: str = "dense-13b") -> ModelFacts:
    """40 layers 5120 wide with a cache of 819,200 bytes a token (for 40 heads): a Llama 2 13B."""
    return ModelFacts(
        name=name, family="llama", parameters=parameters, active_parameters=parameters, hidden_size=5120,
        num_hidden_layers=40, num_attention_heads=40, num_key_value_heads=kv_heads, head_dim=128,
        intermediate_size=13824, vocab_size=32000, layers=(Layers("full", 40, kv_heads=kv_heads, head_dim=128),),
        embedding_parameters=2 * 32000 * 5120,
    )  # fmt: skip


def make_mixture(*, count: int = 128, active: int = 8) -> ModelFacts:
    """48 layers 2048 wide, 29 of 30 billion parameters in routed experts: a Qwen3 30B A3B."""
    return ModelFacts(
        name="mixture", family="qwen3_moe", parameters=30_500_000_000, active_parameters=3_300_000_000,
        hidden_size=2048, num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4, head_dim=128,
        intermediate_size=768, vocab_size=151936, layers=(Layers("full", 48, kv_heads=4, head_dim=128),),
        embedding_parameters=2 * 151936 * 2048, experts=Experts(count, active, 0, 28_991_029_248),
    )  # fmt: skip


def make_latent() -> ModelFacts:
    """A model with MLA: 576 cached elements a token and layer."""
    return ModelFacts(
        name="latent", family="deepseek_v3", parameters=16_000_000_000, active_parameters=16_000_000_000,
        hidden_size=2048, num_hidden_layers=27, num_attention_heads=16, num_key_value_heads=16, head_dim=128,
        intermediate_size=10944, vocab_size=102400, layers=(Layers("mla", 27, latent_elements=576),),
    )  # fmt: skip


def make_card(name: str = "H100-SXM") -> AcceleratorFacts:
    card = accelerators.find(name)
    assert card is not None
    return card


def make_setup(card: str = "H100-SXM", **fields: Any) -> Setup:
    return Setup(make_card(card), **fields)


def make_format(text: str, model: ModelFacts) -> WeightFormat:
    found = parse(text, model)
    assert found is not None
    return found
