"""Cases in, predictions out: time to first token, time per output token and throughput of published set-ups.

Guarantees
    One answer a case, in the order given. A case that can't be understood gets its `error` (code, message, fields) and
    leaves the others alone. With `calibrate`, rows of the same `series_id` that carry a time per output token correct
    the prediction of the rows without one; never rows of another series, and never a row's own result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from controlplane.domain.errors import RefusedError
from controlplane.domain.performance import case as cases_read
from controlplane.domain.performance import fields, predictor
from controlplane.domain.performance.case import FindModel, Question
from controlplane.domain.performance.predictor import Observed
from controlplane.domain.specs import known_models

TPOT_RESULTS = ("tpot_mean_ms", "tpot_p50_ms", "itl_mean_ms", "itl_p50_ms", "tpot_ms")
TTFT_RESULTS = ("ttft_p50_ms", "ttft_mean_ms", "ttft_ms")
MOST_POINTS = 8  # of one series that are used: more add cost and nothing else


def run(
    cases: Sequence[object], *, calibrate: bool, find_model: FindModel = known_models.find
) -> list[dict[str, object]]:
    """Predictions with `case_id`, `ttft_ms`, `tpot_ms`, `output_tok_s`, `limit`, `assumptions`, or `error`."""
    read = [_read(case, find_model) for case in cases]
    points = _points(cases, read) if calibrate else {}
    return [
        _answer(case, question, points, index) for index, (case, question) in enumerate(zip(cases, read, strict=True))
    ]


def _read(case: object, find_model: FindModel) -> Question | RefusedError:
    if not isinstance(case, Mapping):
        return RefusedError(fields.CODE, "A case has to be an object with fields.", fields={"case": "a JSON object"})
    try:
        return cases_read.read(case, find_model)
    except RefusedError as refused:
        return refused


def _points(cases: Sequence[object], read: list[Question | RefusedError]) -> dict[str, list[tuple[int, Observed]]]:
    """Series → measured points, each with the index of its row."""
    found: dict[str, list[tuple[int, Observed]]] = {}
    for index, (case, question) in enumerate(zip(cases, read, strict=True)):
        if isinstance(question, RefusedError) or question.series_id is None or not isinstance(case, Mapping):
            continue
        tpot_s = _measured(case, TPOT_RESULTS)
        if tpot_s is not None:
            point = Observed(question, tpot_s, _measured(case, TTFT_RESULTS))
            found.setdefault(question.series_id, []).append((index, point))
    return found


def _measured(case: Mapping[str, object], results: tuple[str, ...]) -> float | None:
    """Seconds that a row reports in the first of these fields (in ms) that has a sane value; None without one."""
    for field in results:
        value = case.get(field)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 1e-3 < value < 1e9:
            return float(value) / 1e3
    return None


def _case_id(case: object) -> str | int | float | None:
    """The name of the case as given, `id` where there is no `case_id`; None where it is nothing that names."""
    if not isinstance(case, Mapping):
        return None
    given = case.get("id") if case.get("case_id") is None else case["case_id"]
    if isinstance(given, float):
        return given if isfinite(given) else None
    return given if isinstance(given, (str, int)) else None


def _answer(
    case: object, question: Question | RefusedError, points: dict[str, list[tuple[int, Observed]]], index: int
) -> dict[str, object]:
    if isinstance(question, RefusedError):
        error = {"code": question.code, "message": question.message, "fields": question.fields}
        return {"case_id": _case_id(case), "error": error}
    others = [point for row, point in points.get(question.series_id or "", []) if row != index][:MOST_POINTS]
    found = predictor.predict(question, others)
    answer: dict[str, object] = {
        "case_id": _case_id(case),
        "ttft_ms": round(found.ttft_ms, 3),
        "tpot_ms": round(found.tpot_ms, 4),
        "output_tok_s": round(found.output_tok_s, 2),
        "limit": found.limit,
        "assumptions": list(question.assumptions),
    }
    if others:
        answer["calibrated_from"] = len(others)
        answer["factors"] = {part: round(factor, 3) for part, factor in found.factors.items()}
    return answer
