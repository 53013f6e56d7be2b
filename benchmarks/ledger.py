"""How near the memory ledger comes to what engines logged: `python -m benchmarks.ledger [--cases FILE] [--rows]`.

Reads start-ups of vLLM as people posted them (HEADWORKS_SHARED/data/ledger), asks the estimate without any of their
results, and prints the errors as JSON on standard output and as a table on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from controlplane.domain import estimate
from controlplane.domain.errors import RefusedError

SHARED = Path(os.environ.get("HEADWORKS_SHARED", Path(__file__).resolve().parent.parent.parent / "shared"))
FIELDS = (
    "case_id", "model", "architecture", "gpu", "gpu_memory_total_gib", "num_gpus", "tensor_parallel",
    "pipeline_parallel", "dtype", "quantization", "kv_cache_dtype", "gpu_memory_utilization", "max_model_len",
    "max_num_seqs", "max_num_batched_tokens", "enforce_eager", "block_size", "vllm_version", "engine", "multimodal",
    "speculative", "cpu_offload_gb", "kv_cache_memory_gib",
)  # fmt: skip
_LOG_ROUNDS_GIB = 0.005
Case = Mapping[str, Any]
Answer = Mapping[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=Path, default=SHARED / "data/ledger/cases.json")
    parser.add_argument("--models", type=Path, default=SHARED / "data/ledger/models.json")
    parser.add_argument("--rows", action="store_true", help="print every case too")
    parser.add_argument("--no-architecture", action="store_true", help="give names of models only")
    given = parser.parse_args()
    if not given.cases.exists():
        print(f"{given.cases} is not there: set HEADWORKS_SHARED", file=sys.stderr)
        return 0
    cases = json.loads(given.cases.read_text())
    models = {} if given.no_architecture else json.loads(given.models.read_text())
    answers = {case["case_id"]: ask(setup_of(case, models)) for case in cases}
    figures = score(cases, models, answers)
    print(json.dumps(figures, indent=1))
    print(table(figures), file=sys.stderr)
    if given.rows:
        print("\n".join(rows(cases, answers)), file=sys.stderr)
    return 0


def setup_of(case: Case, models: Mapping[str, Any]) -> dict[str, Any]:
    """The case without its results."""
    found = {field: case.get(field) for field in FIELDS}
    found["architecture"] = case.get("architecture") or models.get(case.get("model_arch_key") or "")
    return found


def ask(setup: Mapping[str, object]) -> dict[str, Any]:
    try:
        return estimate.estimate(setup)
    except RefusedError as error:
        return estimate.refusal(setup, error)


def score(cases: Sequence[Case], models: Mapping[str, Any], answers: Mapping[Any, Answer]) -> dict[str, Any]:
    """All figures; errors are relative, of absolute value."""
    answered = [case for case in cases if "error" not in answers[case["case_id"]]]

    def errors(flag: str, field: str, truth: str | None = None) -> dict[str, Any]:
        found, beyond = [], 0
        for case in answered:
            value, got = case.get(truth or field), answers[case["case_id"]].get(field)
            if case.get(flag) and value and got is not None:
                found.append(abs(got / value - 1))
                beyond += found[-1] > max(0.001, _rounding(case))
        return {**spread(found), "beyond_0.1_percent_and_rounding": beyond}

    return {
        "cases": len(cases),
        "answered": len(answered),
        "kv_bytes_per_token": errors("usable_kv", "kv_bytes_per_token", "bytes_per_token_observed"),
        "weights": errors("usable_weights", "weights_gib"),
        "kv_gib_end_to_end": errors("end_to_end", "kv_cache_gib"),
        "kv_gib_budget": errors("usable_budget", "kv_cache_gib"),
        "activation_peak": errors("usable_budget", "activation_peak_gib"),
        **_score_refusals(answered, models),
        "verdict": _score_verdicts(answered, models, answers),
    }


def _rounding(case: Case) -> float:
    """How far a figure may be off because the log has GiB of the cache with two decimals."""
    gib = case.get("kv_cache_gib") or case.get("error_needed_gib") or case.get("error_available_gib")
    return _LOG_ROUNDS_GIB / gib if gib and gib > 0 else 0.0


def _score_refusals(answered: Sequence[Case], models: Mapping[str, Any]) -> dict[str, Any]:
    """With the cache that a refused start had: what one request needed, and the longest that would have fitted."""
    needs, longest = [], []
    for case in answered:
        capped = _with_logged_cache(case, models)
        if capped is None or not case.get("error_kind"):
            continue
        if case.get("error_needed_gib"):
            needs.append(abs(capped["needed_gib"] / case["error_needed_gib"] - 1))
        if case.get("error_estimated_max_len"):
            longest.append(abs(capped["estimated_max_len"] / case["error_estimated_max_len"] - 1))
    return {"needed_gib_of_refused": spread(needs), "longest_length_of_refused": spread(longest)}


def _score_verdicts(
    answered: Sequence[Case], models: Mapping[str, Any], answers: Mapping[Any, Answer]
) -> dict[str, Any]:
    """Three questions a case: as it was; with the cache it had; with 0.98 of what one request needs."""
    rows: list[tuple[Any, str, bool | None, bool]] = []
    for case in answered:
        name, started, answer = case["case_id"], not case.get("error_kind"), answers[case["case_id"]]
        rows.append((name, "as it was", answer["fits"], started))
        capped = _with_logged_cache(case, models)
        if capped is not None:
            rows.append((name, "with its cache", capped["fits"], started))
        short = ask({**setup_of(case, models), "kv_cache_memory_gib": _needed_gib(case, answer) * 0.98})
        rows.append((name, "with too small a cache", short.get("fits"), False))
    decided = [row for row in rows if row[2] is not None]
    right = sum(got is wanted for _, _, got, wanted in decided)
    return {
        "decided": len(decided),
        "undecided": len(rows) - len(decided),
        "right": right,
        "share_right": round(right / max(1, len(decided)), 4),
        "wrong": [f"{name} {how}: said {got}" for name, how, got, wanted in decided if got is not wanted],
    }


def _with_logged_cache(case: Case, models: Mapping[str, Any]) -> dict[str, Any] | None:
    cap = case.get("error_available_gib") if case.get("error_kind") else case.get("kv_cache_gib")
    if not cap or cap < 0:
        return None
    answer = ask({**setup_of(case, models), "kv_cache_memory_gib": cap})
    return None if "error" in answer else answer


def _needed_gib(case: Case, answer: Answer) -> float:
    """What one request needed: as logged, else by the observed bytes a token, else as estimated."""
    if case.get("error_needed_gib"):
        return float(case["error_needed_gib"])
    return float(answer["needed_gib"])


def spread(errors: Iterable[float]) -> dict[str, float | int | None]:
    """Median, 90th percentile (nearest rank) and largest, in percent."""
    found = sorted(errors)
    if not found:
        return {"cases": 0, "median_percent": None, "p90_percent": None, "largest_percent": None}
    rank = max(0, -(-len(found) * 9 // 10) - 1)
    return {
        "cases": len(found),
        "median_percent": round(100 * median(found), 3),
        "p90_percent": round(100 * found[rank], 3),
        "largest_percent": round(100 * found[-1], 3),
    }


def table(figures: Mapping[str, Any]) -> str:
    lines = [f"{'':24}{'cases':>7}{'median %':>10}{'p90 %':>9}{'largest %':>11}"]
    for name, figure in figures.items():
        if isinstance(figure, Mapping) and figure.get("cases"):
            values = [figure["median_percent"], figure["p90_percent"], figure["largest_percent"]]
            lines.append(
                f"{name:24}{figure['cases']:>7}"
                + "".join(f"{v:>{w}}" for v, w in zip(values, (10, 9, 11), strict=True))
            )
    verdict = figures["verdict"]
    lines.append(f"verdict: {verdict['right']} of {verdict['decided']} right, {verdict['undecided']} undecided")
    return "\n".join(lines)


def rows(cases: Sequence[Case], answers: Mapping[Any, Answer]) -> Iterable[str]:
    """A line a case: predicted and logged weights, activation, non-torch, cache."""
    pairs = ("weights_gib", "activation_peak_gib", "non_torch_gib", "cudagraph_gib", "kv_cache_gib")
    for case in cases:
        answer = answers[case["case_id"]]
        head = f"#{case['case_id']} {case['model'][:28]} v{case['vllm_version']} tp{case['tensor_parallel']}"
        if "error" in answer:
            yield f"{head}: {answer['error']['message']}"
            continue
        parts = [f"{name.removesuffix('_gib')} {answer[name]}/{case[name]}" for name in pairs]
        parts.append(f"kv/token {answer['kv_bytes_per_token']}/{case['bytes_per_token_observed']}")
        parts.append(f"fits {answer['fits']}/{case['error_kind']} longest {answer['estimated_max_len']}")
        yield f"{head}: {', '.join(parts)}"


if __name__ == "__main__":
    sys.exit(main())
