"""Models, cards and set-ups for the tests of the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controlplane.domain.footprint import engine_rules
from controlplane.domain.footprint.cards import Card
from controlplane.domain.ledger import setup
from controlplane.domain.ledger.setup import Setup, Wishes
from controlplane.domain.specs import precision
from controlplane.domain.specs.model import Experts, Layers, ModelFacts, StateShape

GIB = 2**30


def make_model(**changes: Any) -> ModelFacts:
    """Llama 3.1 8B."""
    model = ModelFacts(
        name="Llama-3.1-8B",
        family="llama",
        parameters=8_030_261_248,
        active_parameters=8_030_261_248,
        hidden_size=4096,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size=14336,
        vocab_size=128256,
        layers=(Layers("full", 32, kv_heads=8, head_dim=128),),
        max_position_embeddings=131072,
        embedding_parameters=2 * 128256 * 4096,
    )
    return replace(model, **changes)


def make_dense(parameters: int, **changes: Any) -> ModelFacts:
    """A dense model of a size, for sums that depend on nothing else; without embeddings, so that all is quantized."""
    values = {"parameters": parameters, "active_parameters": parameters, "embedding_parameters": 0}
    return make_model(**{**values, "max_position_embeddings": None, **changes})


def make_latent_model(**changes: Any) -> ModelFacts:
    """DeepSeek V2 Lite."""
    values: dict[str, Any] = {
        "name": "DeepSeek-V2-Lite",
        "family": "deepseek_v2",
        "parameters": 15_706_484_224,
        "active_parameters": 2_660_000_000,
        "hidden_size": 2048,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 192,
        "intermediate_size": 10944,
        "vocab_size": 102400,
        "layers": (Layers("mla", 27, latent_elements=576),),
        "embedding_parameters": 2 * 102400 * 2048,
        "experts": Experts(64, 6, 2, routed_params=26 * 64 * 3 * 2048 * 1408),
        "max_position_embeddings": None,
    }
    return make_model(**{**values, **changes})


def make_window_model(**changes: Any) -> ModelFacts:
    """gpt-oss-120b: half of the layers see 128 tokens."""
    values: dict[str, Any] = {
        "name": "gpt-oss-120b",
        "family": "gpt_oss",
        "parameters": 116_829_156_672,
        "active_parameters": 5_100_000_000,
        "hidden_size": 2880,
        "num_hidden_layers": 36,
        "num_attention_heads": 64,
        "head_dim": 64,
        "intermediate_size": 2880,
        "vocab_size": 201088,
        "layers": (
            Layers("full", 18, kv_heads=8, head_dim=64),
            Layers("sliding", 18, kv_heads=8, head_dim=64, window_tokens=128),
        ),
        "embedding_parameters": 2 * 201088 * 2880,
        "experts": Experts(128, 4, 0, routed_params=36 * 128 * 3 * 2880 * 2880),
        "quantization": "mxfp4:experts",
        "max_position_embeddings": None,
    }
    return make_model(**{**values, **changes})


def make_state_model(**changes: Any) -> ModelFacts:
    """Qwen3.6-27B: three layers with a state for each one with attention."""
    width = 2 * 16 * 128 + 48 * 128
    values: dict[str, Any] = {
        "name": "Qwen3.6-27B",
        "family": "qwen3_5",
        "parameters": 27_800_000_000,
        "active_parameters": 27_800_000_000,
        "hidden_size": 5120,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "intermediate_size": 17408,
        "vocab_size": 248320,
        "layers": (
            Layers("gated_delta", 48, state=StateShape(3 * width, 48 * 128 * 128)),
            Layers("full", 16, kv_heads=4, head_dim=256),
        ),
        "embedding_parameters": 2 * 248320 * 5120,
    }
    return make_model(**{**values, **changes})


def make_card(gib: float | None = 79.25, name: str = "A100 80GB") -> Card:
    return Card(name, None if gib is None else round(gib * GIB))


def make_setup(
    model: ModelFacts | None = None,
    *,
    card: Card | None = None,
    version: str = "0.10.2",
    engine: str = "V1",
    dtype: str | None = None,
    quantization: str | None = None,
    kv_cache_dtype: str | None = None,
    **wishes: Any,
) -> Setup:
    facts = model or make_model()
    kinds = precision.parse(dtype, quantization, kv_cache_dtype, facts)
    rules = engine_rules.rules_for(version, engine)
    return setup.resolve(facts, kinds, card or make_card(), rules, Wishes(**wishes))
