"""How good the advice on parallelism is, and how long it takes: `python -m benchmarks.parallelism`.

Choices: published sweeps of one model on one card and engine with several splits (HEADWORKS_SHARED/data/perf). For each
bound on time per output token the split with the most tokens a second and card is known from the measurements; the
advice picks one from predictions alone. Its loss is what the pick gives away of the measured best. The latency model
was learned from these sweeps too; the one figure of the advice, how much a doubling of cards has to gain, is taken from
the other models each time (`left out`).
CPU: one ranking over eight cards. Prints JSON on standard output and a table on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, log2
from pathlib import Path
from statistics import fmean
from typing import Any

from controlplane.domain import estimate_performance
from controlplane.domain.footprint import engine_rules
from controlplane.domain.ledger.setup import Wishes
from controlplane.domain.parallelism import ranking
from controlplane.domain.parallelism.hardware import Hardware
from controlplane.domain.parallelism.question import Load, Question
from controlplane.domain.performance.setup import Workload
from controlplane.domain.specs import accelerators, known_models, precision

SHARED = Path(os.environ.get("HEADWORKS_SHARED", Path(__file__).resolve().parent.parent.parent / "shared"))
FILES = ("cases.json", "sweeps.json")
ASKED = (
    "id", "model", "params_b", "active_params_b", "dtype", "gpu", "gpu_count", "tp", "pp", "dp", "ep", "engine",
    "engine_version", "speculative", "input_len", "output_len", "load_mode", "concurrency",
)  # fmt: skip
BOUNDS_MS = (8.0, 12.0, 20.0, 30.0, 50.0, 100.0)
GAINS = (1.0, 1.02, 1.05, 1.08, 1.1, 1.12, 1.15, 1.2)
MODELS = ("Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-30B-A3B", "Qwen3-235B-A22B", "gpt-oss-120b", "DeepSeek-V3")


@dataclass(frozen=True, slots=True)
class Reached:
    """One point of a sweep: time per output token, and output tokens a second and card."""

    tpot_ms: float
    tok_s_a_card: float


@dataclass(frozen=True, slots=True)
class Choice:
    """At one bound: what each split gave and what was predicted, tokens a second and card. Splits by their cards."""

    model: str
    measured: Mapping[int, float]
    predicted: Mapping[int, float]

    def loss(self, gain: float) -> float:
        """Share of the measured best that the pick gives away."""
        picked = max(self.predicted, key=lambda cards: self.predicted[cards] / gain ** log2(cards))
        return 1 - self.measured[picked] / max(self.measured.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=SHARED / "data/perf")
    parser.add_argument("--json", action="store_true", help="JSON alone")
    given = parser.parse_args()
    figures: dict[str, Any] = {"cpu_ms_of_a_ranking_over_8_cards": cpu()}
    if given.folder.exists():
        cases = [case for name in FILES for case in json.loads((given.folder / name).read_text())]
        figures |= score(choices(cases))
    else:
        print(f"{given.folder} is not there: set HEADWORKS_SHARED", file=sys.stderr)
    print(json.dumps(figures, indent=1))
    if not given.json:
        print(table(figures), file=sys.stderr)
    return 0


def cpu() -> dict[str, float]:
    """Milliseconds of CPU by model, on eight H100: the best of five, after one to warm up."""
    found = {}
    for name in MODELS:
        question = question_of(name)
        ranking.rank(question)
        times = []
        for _ in range(5):
            start = time.process_time()
            ranking.rank(question)
            times.append(time.process_time() - start)
        found[name] = round(min(times) * 1e3, 1)
    return found


def question_of(name: str) -> Question:
    model, card = known_models.find(name), accelerators.find("H100-SXM")
    assert model is not None
    assert card is not None
    kinds = precision.parse(None, None, None, model)
    rules = engine_rules.rules_for("0.32")
    load = Load(Workload(1000, 300), requests_per_s=2.0)
    return Question(model, kinds, Hardware(card, 8), rules, load, wishes=Wishes(max_model_len=8192))


def choices(cases: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """Every bound at which several splits were measured and at least one of them meets it."""
    rows = [case for case in cases if usable(case)]
    asked = [{name: case.get(name) for name in ASKED} for case in rows]
    answers = estimate_performance.run(list(asked), calibrate=False)
    groups: dict[tuple[object, ...], dict[int, list[tuple[Reached, Reached]]]] = defaultdict(lambda: defaultdict(list))
    for case, answer in zip(rows, answers, strict=True):
        if "error" in answer:
            continue
        names = ("model", "gpu", "engine", "dtype", "speculative", "input_len", "output_len")
        pair = (reached(case, case["ttft_mean_ms"], case["tpot_mean_ms"]), reached(case, **times(answer)))
        groups[tuple(case[name] for name in names)][case["gpu_count"]].append(pair)
    found = []
    for key, splits in groups.items():
        for bound in BOUNDS_MS:
            measured = {cards: at([one for one, _ in pairs], bound) for cards, pairs in splits.items()}
            known = {cards: value for cards, value in measured.items() if value is not None}
            predicted = {cards: at([one for _, one in splits[cards]], bound) or 0.0 for cards in known}
            if len(known) > 1 and max(known.values()) > 0 and max(predicted.values()) > 0:
                found.append(Choice(str(key[0]), known, predicted))
    return found


def usable(case: Mapping[str, Any]) -> bool:
    known = case["tpot_mean_ms"] and case["concurrency"] and case["output_len"]
    return bool(known and case["tier"] != "C" and not case["plausibility"])


def times(answer: Mapping[str, Any]) -> dict[str, float]:
    return {"ttft_ms": float(answer["ttft_ms"]), "tpot_ms": float(answer["tpot_ms"])}


def reached(case: Mapping[str, Any], ttft_ms: float | None, tpot_ms: float) -> Reached:
    """By Little's law: requests in flight x tokens of each / time of each."""
    tokens = case["output_len"]
    seconds = ((ttft_ms or 0.0) + tokens * tpot_ms) / 1e3
    return Reached(tpot_ms, case["concurrency"] * tokens / seconds / case["gpu_count"])


def at(points: Sequence[Reached], bound_ms: float) -> float | None:
    """Tokens a second and card within the bound: between points straight in logarithms, 0 where it is not met."""
    rising = sorted(points, key=lambda point: point.tok_s_a_card)
    if rising[-1].tpot_ms <= bound_ms:
        return rising[-1].tok_s_a_card
    if rising[0].tpot_ms > bound_ms:
        return 0.0
    found = None
    for low, high in pairwise(rising):
        if low.tpot_ms <= bound_ms <= high.tpot_ms:
            share = log(bound_ms / low.tpot_ms) / log(high.tpot_ms / low.tpot_ms) if high.tpot_ms > low.tpot_ms else 0
            found = exp(log(low.tok_s_a_card) + share * log(high.tok_s_a_card / low.tok_s_a_card))
    return found


def score(found: Sequence[Choice]) -> dict[str, Any]:
    """Losses by gain, with the gain learned from the other models, and of always taking the smallest split."""
    left_out = []
    for model in sorted({choice.model for choice in found}):
        others = [choice for choice in found if choice.model != model]
        gain = min(GAINS, key=lambda one: fmean(choice.loss(one) for choice in others))
        left_out += [choice.loss(gain) for choice in found if choice.model == model]
    smallest = [1 - choice.measured[min(choice.measured)] / max(choice.measured.values()) for choice in found]
    losses = {f"gain {gain:g} a doubling": figures_of([choice.loss(gain) for choice in found]) for gain in GAINS}
    return losses | {"gain of the other models, left out": figures_of(left_out), "smallest": figures_of(smallest)}


def figures_of(losses: Sequence[float]) -> dict[str, float]:
    rising = sorted(losses)
    return {
        "n": len(rising),
        "right": round(sum(loss < 1e-9 for loss in rising) / len(rising), 4),
        "mean_loss": round(fmean(rising), 4),
        "p90_loss": round(rising[int(0.9 * len(rising))], 4),
    }


def table(figures: Mapping[str, Any]) -> str:
    lines = [f"{'':38}{'choices':>9}{'right':>9}{'mean loss':>11}{'p90 loss':>10}"]
    for name, row in figures.items():
        if "n" in row:
            lines.append(f"{name:38}{row['n']:>9}{row['right']:>9.0%}{row['mean_loss']:>11.1%}{row['p90_loss']:>10.1%}")
        else:
            lines += [f"{model:38}{ms:>9} ms of CPU" for model, ms in row.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
