"""How near the latency model comes to published measurements: `python -m benchmarks.performance_model [--cross]`.

Reads measurements (HEADWORKS_SHARED/data/perf), asks without their results and prints the errors as JSON on standard
output and as a table on standard error. vLLM and SGLang decide; TensorRT-LLM and other engines stand apart.
Calibrated: each point of a series in turn (and the first, middle and last alone) corrects the others.
`--cross` learns the coefficients again without some of the series, models or sources and asks for those (minutes).
`--learn FILE` learns them from everything and writes them as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import performance_fit
from benchmarks.performance_fit import Row
from controlplane.domain.errors import RefusedError
from controlplane.domain.performance import case as cases_read
from controlplane.domain.performance import predictor
from controlplane.domain.performance.coefficients import Coefficients
from controlplane.domain.performance.learned import COEFFICIENTS
from controlplane.domain.specs import known_models

SHARED = Path(os.environ.get("HEADWORKS_SHARED", Path(__file__).resolve().parent.parent.parent / "shared"))
FILES = ("cases.json", "sweeps.json")
GROUPS = ("vllm and sglang", "tensorrt-llm", "others")


@dataclass(frozen=True, slots=True)
class Error:
    """Relative error of one prediction, absolute value, in the group of its engine."""

    group: str
    size: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=SHARED / "data/perf")
    parser.add_argument("--cross", action="store_true", help="learn again without what is asked for (minutes)")
    parser.add_argument("--learn", type=Path, help="learn from everything, write coefficients to this file")
    given = parser.parse_args()
    if not given.folder.exists():
        print(f"{given.folder} is not there: set HEADWORKS_SHARED", file=sys.stderr)
        return 0
    rows = rows_of(json.loads((given.folder / name).read_text()) for name in FILES)
    if given.learn:
        given.learn.write_text(json.dumps(performance_fit.learn(rows, start=COEFFICIENTS, rounds=5), indent=1))
        return 0
    figures = measure(rows)
    if given.cross:
        figures |= cross(rows)
    print(json.dumps(figures, indent=1))
    print(table(figures), file=sys.stderr)
    return 0


def rows_of(files: Iterable[list[dict[str, Any]]]) -> list[Row]:
    """Rows with a time per output token; a measurement listed twice counts once."""
    found: list[Row] = []
    seen: set[tuple[object, ...]] = set()
    for case in (case for cases in files for case in cases):
        tpot_ms = case.get("tpot_mean_ms") or case.get("tpot_p50_ms")
        if not tpot_ms or case["tier"] == "C" or case["plausibility"]:
            continue
        same = tuple(case[name] for name in ("gpu", "engine", "dtype", "tp", "ep", "dp", "input_len", "output_len"))
        key = (*same, case["concurrency"], tpot_ms)
        if case["id"].startswith("s") and key in seen:
            continue
        seen.add(key)
        try:
            question = cases_read.read(case, known_models.find)
        except RefusedError as refused:
            print(f"{case['id']}: {refused.message}", file=sys.stderr)
            continue
        found.append(Row(case, question, tpot_ms / 1e3))
    return found


def group_of(row: Row) -> str:
    engine = row.case["engine"] or ""
    if engine in {"vllm", "sglang"}:
        return GROUPS[0]
    return GROUPS[1] if engine.startswith("tensorrt-llm") else GROUPS[2]


def measure(rows: Sequence[Row]) -> dict[str, Any]:
    figures = {"tpot uncalibrated": summary(uncalibrated(rows, COEFFICIENTS))}
    for which in ("any", "first", "middle", "last"):
        figures[f"tpot, {which} point of a series known"] = summary(calibrated(rows, which))
    return figures


def uncalibrated(rows: Sequence[Row], known: Coefficients) -> list[Error]:
    return [
        Error(group_of(row), abs(predictor.predict(row.question, (), known).tpot_ms / 1e3 / row.tpot_s - 1))
        for row in rows
    ]


def calibrated(rows: Sequence[Row], which: str, known: Coefficients = COEFFICIENTS) -> list[Error]:
    """Errors of the other points of each series when one is known."""
    series: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        series[row.case["series_id"]].append(row)
    found: list[Error] = []
    for points in series.values():
        points.sort(key=lambda row: row.question.concurrency or 0)
        places = {"first": [0], "middle": [len(points) // 2], "last": [len(points) - 1]}
        for place in places.get(which, range(len(points))):
            one = points[place]
            point = (predictor.Observed(one.question, one.tpot_s),)
            found += [
                Error(group_of(row), abs(predictor.predict(row.question, point, known).tpot_ms / 1e3 / row.tpot_s - 1))
                for row in points
                if row is not one
            ]
    return found


def cross(rows: Sequence[Row]) -> dict[str, Any]:
    """Errors on rows that the coefficients were not learned from."""
    ways: dict[str, Callable[[Row], str]] = {
        "series": lambda row: str(row.case["series_id"]),
        "architectures": lambda row: f"{row.question.model.family} {row.question.model.num_hidden_layers}",
        "sources": lambda row: str(row.case["source"]).split(":")[0].split("#")[0],
    }
    figures: dict[str, Any] = {}
    for name, key in ways.items():
        plain: list[Error] = []
        corrected: list[Error] = []
        for known, asked in performance_fit.folds(rows, key):
            coefficients = performance_fit.learn(known, start=COEFFICIENTS, rounds=2)
            plain += uncalibrated(asked, coefficients)
            corrected += calibrated(asked, "any", coefficients)
        figures[f"tpot uncalibrated, {name} left out"] = summary(plain)
        figures[f"tpot, any point known, {name} left out"] = summary(corrected)
        print(f"{name} left out: {summary(plain)}, one point known: {summary(corrected)}", file=sys.stderr)
    return figures


def summary(errors: Sequence[Error]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for group in GROUPS:
        sizes = sorted(error.size for error in errors if error.group == group)
        if sizes:
            tenth = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
            found[group] = {"n": len(sizes), "median": round(median(sizes), 4), "p90": round(tenth, 4)}
    return found


def table(figures: dict[str, Any]) -> str:
    lines = [f"{'':48}" + "".join(f"{group:>26}" for group in GROUPS)]
    for name, groups in figures.items():
        cells = (groups.get(group) for group in GROUPS)
        text = (f"{c['median']:.1%} (p90 {c['p90']:.0%}, {c['n']:.0f})" if c else "-" for c in cells)
        lines.append(f"{name:48}" + "".join(f"{cell:>26}" for cell in text))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
