"""What the ledger's learned constants are worth on sources they do not come from.

`python -m benchmarks.ledger_cross_validation` leaves out one source at a time, learns every constant again as a median
of the other sources, and predicts the cases of the one that was left out. A file without a name of its own counts as a
source by itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any
from unittest import mock

from benchmarks.ledger import SHARED, ask, setup_of, spread
from controlplane.domain import estimate
from controlplane.domain.errors import RefusedError
from controlplane.domain.footprint import activation, cards, engine_rules, overhead
from controlplane.domain.ledger.result import Ledger

GIB = 2**30
Case = Mapping[str, Any]
Samples = dict[str, list[float]]


def main() -> int:
    path = SHARED / "data/ledger"
    if not path.is_dir():
        print(f"{path} is not there: set HEADWORKS_SHARED", file=sys.stderr)
        return 0
    cases = json.loads((path / "cases.json").read_text())
    models = json.loads((path / "models.json").read_text())
    print(json.dumps(cross_validate(cases, models), indent=1))
    return 0


def cross_validate(cases: Sequence[Case], models: Mapping[str, Any]) -> dict[str, Any]:
    """Errors of the cache in GiB on sources that were left out, and the constants from all of them."""
    seen = [(case, _ledger(case, models)) for case in cases]
    end_to_end, budget = [], []
    for source in {source_of(case) for case in cases}:
        held_out = [case for case in cases if source_of(case) == source and case.get("kv_cache_gib")]
        learned = learn((case, ledger) for case, ledger in seen if source_of(case) != source)
        with ExitStack() as stack:
            for name, value in learned.items():
                module, constant = _CONSTANTS[name]
                stack.enter_context(mock.patch.object(module, constant, value))
            for case in held_out:
                got = ask(setup_of(case, models)).get("kv_cache_gib")
                if got is None:
                    continue
                error = abs(got / case["kv_cache_gib"] - 1)
                if case["end_to_end"]:
                    end_to_end.append(error)
                if case["usable_budget"]:
                    budget.append(error)
    return {
        "kv_gib_end_to_end_left_out": spread(end_to_end),
        "kv_gib_budget_left_out": spread(budget),
        "constants": {name: round(value, 3) for name, value in learn(seen).items()},
        "in_use": {name: getattr(module, constant) for name, (module, constant) in _CONSTANTS.items()},
    }


_CONSTANTS: dict[str, tuple[Any, str]] = {
    "sorted_bytes_a_logit": (activation, "_SORTED_BYTES"),
    "unsorted_bytes_a_logit": (activation, "_UNSORTED_BYTES"),
    "encoder_bytes_a_token_v0": (activation, "_ENCODER_BYTES_V0"),
    "non_torch_single_gib": (overhead, "_SINGLE_GIB"),
    "non_torch_single_0_6_gib": (overhead, "_SINGLE_OLD_GIB"),
    "non_torch_single_0_6_desktop_gib": (overhead, "_SINGLE_OLD_DESKTOP_GIB"),
    "non_torch_linked_gib": (overhead, "_LINKED_GIB"),
    "non_torch_bus_gib": (overhead, "_BUS_GIB"),
}


def source_of(case: Case) -> str:
    source = str(case["source"])
    return f"file {case['case_id']}" if source == "public file" else source


def learn(seen: Iterable[tuple[Case, Ledger | None]]) -> dict[str, float]:
    """A median for each constant; a constant that nothing was seen of is left as it is."""
    samples: Samples = {}
    for case, ledger in seen:
        for name, value in [*_non_torch(case), *(_activation(case, ledger) if ledger else ())]:
            samples.setdefault(name, []).append(value)
    return {name: median(values) for name, values in samples.items() if name in _CONSTANTS}


def _activation(case: Case, ledger: Ledger) -> Iterable[tuple[str, float]]:
    setup, rules = ledger.setup, ledger.setup.rules
    peak = _activation_gib(case, ledger)
    if peak is None:
        return
    found = ledger.budget.activation
    if setup.multimodal_tokens and rules.generation == "V0":
        yield "encoder_bytes_a_token_v0", peak * GIB / setup.max_num_batched_tokens
    elif found.sampling_bytes == found.peak_bytes and not setup.multimodal_tokens:
        hidden = setup.max_num_batched_tokens * setup.model.hidden_size * 2
        rows = min(setup.max_num_seqs, setup.max_num_batched_tokens)
        name = "sorted_bytes_a_logit" if rules.sorts_whole_vocabulary else "unsorted_bytes_a_logit"
        yield name, (peak * GIB - hidden) / (rows * setup.model.vocab_size)


def _activation_gib(case: Case, ledger: Ledger) -> float | None:
    """The logged peak; where it holds graphs too (from 0.21), or is not logged, what the sum leaves for it."""
    if case.get("usable_budget") and case.get("activation_peak_gib") and not ledger.budget.graphs_inside:
        return float(case["activation_peak_gib"])
    if case.get("total_or_util_derived"):
        return None  # of a budget that was worked out backwards
    known = all(case.get(name) for name in ("weights_gib", "kv_cache_gib", "gpu_memory_utilization"))
    if not known or ledger.budget.requested_bytes is None or case["kv_cache_gib"] < 0:
        return None
    rest = ledger.budget.requested_bytes / GIB - case["weights_gib"] - case["kv_cache_gib"]
    graphs = ledger.budget.graphs_bytes / GIB if ledger.budget.graphs_inside else 0.0
    return float(rest - graphs - (case.get("non_torch_gib") or ledger.budget.non_torch_bytes / GIB))


def _non_torch(case: Case) -> Iterable[tuple[str, float]]:
    """What was logged outside torch, in its class; the model does not matter."""
    if case.get("non_torch_gib") is None or not case.get("tensor_parallel"):
        return
    rules = engine_rules.rules_for(case.get("vllm_version"), case.get("engine"))
    card = cards.resolve(case.get("gpu"), case.get("gpu_memory_total_gib"), needed=False)
    if case["tensor_parallel"] == 1:
        old = "non_torch_single_0_6_desktop_gib" if card.is_desktop else "non_torch_single_0_6_gib"
        name = "non_torch_single_gib" if rules.version >= (0, 7, 0) else old
    else:
        name = "non_torch_linked_gib" if card.linked else "non_torch_bus_gib"
    yield name, case["non_torch_gib"]


def _ledger(case: Case, models: Mapping[str, Any]) -> Ledger | None:
    try:
        return estimate.ledger_of(setup_of(case, models))
    except RefusedError:
        return None


if __name__ == "__main__":
    sys.exit(main())
