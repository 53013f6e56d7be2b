"""What hybrids carry of usual requests, against what engines used and logged."""

from __future__ import annotations

import pytest

from controlplane.domain.footprint import hybrid, kv
from controlplane.domain.footprint.engine_rules import rules_for
from controlplane.domain.footprint.hybrid import KvLayout
from controlplane.domain.ledger import carried
from controlplane.domain.specs import known_models, kv_precision
from controlplane.domain.specs.model import Layers
from tests.domain.ledger.setups import make_model, make_state_model, make_window_model

RULES = rules_for("0.32.0")


def make_layout(layers: tuple[Layers, ...], *, batched_tokens: int = 2048, block_tokens: int | None = None) -> KvLayout:
    kinds = kv_precision.parse("auto", model_dtype="bf16")
    found = kv.buckets(layers, tensor_parallel=1, precision=kinds, rules=RULES)
    return hybrid.layout(found, RULES, batched_tokens=batched_tokens, block_tokens=block_tokens)


# So many tokens in so many requests at once, and the share of 400 blocks of 128 tokens that was in use (the median over
# their time) on vLLM 0.32 on CPU cores: a Gemma 3 of twelve layers, of which ten see 256 tokens.
USED = [(500, 8, 0.361), (600, 8, 0.381), (1200, 4, 0.231), (2400, 4, 0.331), (3900, 3, 0.338)]


@pytest.mark.parametrize(("tokens", "requests", "used"), USED)
def test_as_much_of_the_pool_is_counted_as_an_engine_used(tokens: int, requests: int, used: float) -> None:
    layers = (
        Layers("sliding", 10, kv_heads=1, head_dim=32, window_tokens=256),
        Layers("full", 2, kv_heads=1, head_dim=32),
    )
    layout = make_layout(layers, batched_tokens=1024, block_tokens=128)
    found = carried.of(layout, 400)
    assert found is not None
    pool = 400 / sum(1 / group.block_tokens for group in layout.groups)
    share = requests * found.sequence.held_tokens(tokens) / pool
    assert used <= share <= 1.15 * used


def test_the_tokens_that_gemma_3_logs_are_far_more_than_it_carries_of_short_requests() -> None:
    """vLLM 0.32 logs requests of 131,072 tokens times their length."""
    model = known_models.find("google/gemma-3-27b-it")
    assert model is not None
    layout = make_layout(model.layers, batched_tokens=8192)
    blocks = 30_000
    found = carried.of(layout, blocks)
    assert found is not None
    logged = blocks / layout.blocks_for(131_072) * 131_072
    assert logged > 4 * found.capacity_tokens > 0.7 * 4 * blocks * 16 / len(layout.groups)
    assert found.sequence.window_tokens == 1024 and found.sequence.beyond_share == pytest.approx(1 / 7, abs=1e-6)


def test_a_state_is_held_at_once_and_each_token_counts_whole() -> None:
    layout = make_layout(make_state_model().layers)
    found = carried.of(layout, 5000)
    assert found is not None and found.sequence.window_tokens == 0 and found.sequence.beyond_share == 1.0
    growing = next(group.block_tokens for group in layout.groups if group.block_tokens)
    states = sum(group.state_blocks for group in layout.groups)
    assert found.sequence.fixed_tokens == pytest.approx((states + 0.5) * growing, rel=0.01)


def test_what_a_step_computes_beyond_the_windows_is_kept_but_no_more_than_a_quarter() -> None:
    layers = make_window_model().layers
    small, large = (carried.of(make_layout(layers, batched_tokens=size), 4000) for size in (1024, 65536))
    assert small is not None and large is not None
    whole = 4000 * 16 / 2
    assert 0.98 * whole > small.capacity_tokens > large.capacity_tokens >= 0.74 * whole


def test_of_a_uniform_model_and_of_an_unknown_pool_nothing_is_said() -> None:
    assert carried.of(make_layout(make_model().layers), 4000) is None
    assert carried.of(make_layout(make_window_model().layers), None) is None
    states = tuple(layer for layer in make_state_model().layers if layer.state is not None)
    assert carried.of(make_layout(states), 4000) is None
