"""Questions for tests of parallelism and capacity: one model, some cards, a load."""

from __future__ import annotations

from typing import Any

from controlplane.domain.footprint import engine_rules
from controlplane.domain.ledger.setup import Wishes
from controlplane.domain.parallelism.hardware import Hardware
from controlplane.domain.parallelism.question import Load, Purpose, Question
from controlplane.domain.performance.curve import Objective
from controlplane.domain.performance.setup import Workload
from controlplane.domain.specs import accelerators, precision
from controlplane.domain.specs.accelerator import AcceleratorFacts
from controlplane.domain.specs.model import Layers, ModelFacts
from tests.domain.ledger.setups import make_dense, make_latent_model, make_model

BILLION = 10**9


def make_small() -> ModelFacts:
    """8B: it fits one card of 80 GB."""
    return make_model()


def make_large() -> ModelFacts:
    """70B with 64 heads, 8 of keys and values: it needs two cards of 80 GB at least."""
    return make_dense(
        70 * BILLION,
        name="large",
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        layers=(Layers("full", 80, kv_heads=8, head_dim=128),),
    )


def make_huge() -> ModelFacts:
    """405B with 126 layers: it needs more than a node of eight cards of 80 GB."""
    return make_dense(
        405 * BILLION,
        name="huge",
        hidden_size=16384,
        intermediate_size=53248,
        num_hidden_layers=126,
        num_attention_heads=128,
        layers=(Layers("full", 126, kv_heads=8, head_dim=128),),
    )


def make_mixture() -> ModelFacts:
    """A mixture of 64 experts with latent attention."""
    return make_latent_model()


def make_accelerator(name: str) -> AcceleratorFacts:
    card = accelerators.find(name)
    assert card is not None
    return card


def make_hardware(card: str = "H100-SXM", cards_per_node: int = 8, nodes: int = 1, **values: Any) -> Hardware:
    return Hardware(make_accelerator(card), cards_per_node, nodes, **values)


def make_question(
    model: ModelFacts | None = None,
    *,
    hardware: Hardware | None = None,
    purpose: Purpose = "interactive",
    requests_per_s: float | None = None,
    concurrency: float | None = None,
    input_tokens: float = 1000,
    output_tokens: float = 300,
    ttft_ms: float | None = None,
    tpot_ms: float | None = None,
    quantization: str | None = None,
    max_model_len: int | None = 8192,
    **wishes: Any,
) -> Question:
    facts = model or make_small()
    return Question(
        model=facts,
        precision=precision.parse(None, quantization, None, facts),
        hardware=hardware or make_hardware(),
        rules=engine_rules.rules_for("0.32"),
        load=Load(Workload(input_tokens, output_tokens), requests_per_s, concurrency),
        purpose=purpose,
        wishes=Wishes(max_model_len=max_model_len, **wishes),
        objective=Objective(ttft_ms, tpot_ms),
    )
