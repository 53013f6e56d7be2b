from __future__ import annotations

from controlplane.domain.footprint import overhead
from controlplane.domain.footprint.engine_rules import rules_for
from tests.domain.ledger.setups import make_model, make_window_model

RULES = rules_for("0.11.0")


def test_collectives_need_buffers_on_cards_with_a_fabric() -> None:
    single = overhead.non_torch_bytes(RULES, 1)
    bus = overhead.non_torch_bytes(RULES, 4, linked=False)
    linked = overhead.non_torch_bytes(RULES, 4, linked=True)
    assert single < bus < linked


def test_collectives_are_outside_the_budget_of_the_newest_engine() -> None:
    assert overhead.non_torch_bytes(rules_for("0.32.0"), 8) < overhead.non_torch_bytes(RULES, 8)


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
