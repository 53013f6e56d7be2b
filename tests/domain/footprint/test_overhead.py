from __future__ import annotations

import pytest

from controlplane.domain.footprint import cards, overhead
from controlplane.domain.footprint.engine_rules import rules_for
from tests.domain.ledger.setups import GIB, make_model, make_window_model

RULES = rules_for("0.11.0")


def test_collectives_need_buffers_on_cards_with_a_fabric() -> None:
    single = overhead.non_torch_bytes(RULES, 1)
    bus = overhead.non_torch_bytes(RULES, 4, linked=False)
    linked = overhead.non_torch_bytes(RULES, 4, linked=True)
    assert single < bus < linked


def test_collectives_are_outside_the_budget_of_the_newest_engine() -> None:
    assert overhead.non_torch_bytes(rules_for("0.32.0"), 8) < overhead.non_torch_bytes(RULES, 8)


def test_0_6_held_more_outside_torch_on_cards_of_desks() -> None:
    """Logged: 0.28 to 0.35 GiB in three starts on GeForce cards, 0.10 to 0.12 in three on a T4 and A100."""
    old = rules_for("0.6.4")
    names = ("RTX 3090", "A100 40GB", "24GB card")
    desktop, center, unknown = (
        overhead.non_torch_bytes(old, 1, desktop=cards.resolve(name, 24.0).is_desktop) / GIB for name in names
    )
    assert 0.28 <= desktop <= 0.35
    assert 0.10 <= center <= 0.12
    assert center < unknown < desktop
    assert overhead.non_torch_bytes(RULES, 1, desktop=True) == overhead.non_torch_bytes(RULES, 1, desktop=False)


def test_collectives_add_little_to_graphs() -> None:
    """Llama 3 70B on two cards. Logged: 1.22 GiB."""
    found = overhead.graph_bytes(
        make_model(num_hidden_layers=80), RULES, tensor_parallel=2, sequences=256, eager=False, speculative=False
    )
    assert found / GIB == pytest.approx(1.22, abs=0.05)


def test_eager_engines_have_no_graphs() -> None:
    found = overhead.graph_bytes(make_model(), RULES, tensor_parallel=1, sequences=256, eager=True, speculative=False)
    assert found == 0


def test_graphs_grow_with_batches_ranks_experts_and_drafts() -> None:
    def size(sequences: int = 256, ranks: int = 1, *, experts: bool = False, drafts: bool = False) -> int:
        model = make_window_model(num_hidden_layers=32) if experts else make_model()
        return overhead.graph_bytes(
            model, RULES, tensor_parallel=ranks, sequences=sequences, eager=False, speculative=drafts
        )

    assert size(8) < size()
    assert size() < size(ranks=2)
    assert size() < size(experts=True)
    assert size() < size(drafts=True)


def test_sizes_of_graphs_follow_the_batch() -> None:
    assert overhead.graph_sizes(256) == 51
    assert overhead.graph_sizes(1) == 2
    assert overhead.graph_sizes(1_000_000) == 51


def test_adapters_take_memory_by_rank() -> None:
    one = overhead.adapter_bytes(make_model(), adapters=1, rank=16)
    assert overhead.adapter_bytes(make_model(), adapters=2, rank=32) == 4 * one
    assert overhead.adapter_bytes(make_model(), adapters=0) == 0
