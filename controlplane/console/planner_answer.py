"""The planner's answer as a page shows it: stacks, curves, tables, and the deployment that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.console import memory_parts, words
from controlplane.console.memory_parts import Stack
from controlplane.deployments.planner import starting
from controlplane.deployments.planner.answers import Answer
from controlplane.deployments.planner.calibration import Calibration
from controlplane.deployments.planner.starting import Start
from controlplane.domain.ledger.what_if import TriangleRow
from controlplane.domain.parallelism.candidate import Candidate
from controlplane.domain.parallelism.rejection import Rejection
from controlplane.domain.parallelism.stages import Stage
from controlplane.domain.performance.curve import Point

GIB = 1024**3
_REASONS_SHOWN = 24
_SPLITS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Cell:
    """One corner of the triangle: requests of full length, and whether it is the set-up as it is."""

    row: TriangleRow
    current: bool


@dataclass(frozen=True, slots=True)
class Face:
    """A table of the triangle: rows of `unit` values, columns of shares of the card."""

    title: str
    unit: str
    shares: tuple[float, ...]
    lines: tuple[tuple[int, tuple[Cell, ...]], ...]


def bar(answer: Answer) -> Stack:
    """The stack of one card of the set-up."""
    budget = answer.ledger.budget
    sizes = [(part.name, part.size_bytes) for part in budget.parts]
    return memory_parts.stack(sizes, budget.total_bytes, None if budget.capped else budget.requested_bytes)


@dataclass(frozen=True, slots=True)
class StageBar:
    """Cards of a copy that hold the same, as a stack on the scale of all of them."""

    stage: Stage
    stack: Stack


@dataclass(frozen=True, slots=True)
class StageBars:
    """The stages of a copy. `rows`: style and label of each part that any of them has, and its bytes in each."""

    bars: tuple[StageBar, ...]
    rows: tuple[tuple[str, str, tuple[int, ...]], ...]


def stages(answer: Answer) -> StageBars | None:
    """The stages side by side; None where all cards of a copy hold the same."""
    if len(answer.stages) < 2:
        return None
    budget = answer.ledger.budget
    requested = None if budget.capped else budget.requested_bytes
    held: list[dict[str, int]] = [{part.name: part.size_bytes for part in stage.parts} for stage in answer.stages]
    scale = max(sum(sizes.values()) for sizes in held)
    names = [name for name in memory_parts.KINDS if any(name in sizes for sizes in held)]
    return StageBars(
        tuple(
            StageBar(stage, memory_parts.stack(sizes.items(), stage.total_bytes, requested, scale))
            for stage, sizes in zip(answer.stages, held, strict=True)
        ),
        tuple(
            (memory_parts.KINDS[name], memory_parts.label(name), tuple(sizes.get(name, 0) for sizes in held))
            for name in names
        ),
    )


def candidates(answer: Answer) -> list[tuple[Candidate, str]]:
    """The ranked splits, each with why Headworks can't start it (the empty text where it can)."""
    return [(one, starting.why_no_split(one)) for one in answer.ranking.candidates]


def faces(answer: Answer) -> list[Face]:
    """Both faces of the triangle."""
    setup = answer.ledger.setup
    by_length = [(rows[0].max_model_len, rows) for rows in answer.lengths]
    by_seats = [(rows[0].max_num_seqs, rows) for rows in answer.seats]
    return [
        _face(
            _("Context length and share of the card"), _("tokens"), by_length, setup.max_model_len, setup.utilization
        ),
        _face(_("Seats and share of the card"), _("requests"), by_seats, setup.max_num_seqs, setup.utilization),
    ]


def _face(
    title: str, unit: str, lines: Sequence[tuple[int, Sequence[TriangleRow]]], now: int, utilization: float
) -> Face:
    shares = tuple(row.utilization for row in lines[0][1])
    return Face(
        title,
        unit,
        shares,
        tuple(
            (value, tuple(Cell(row, value == now and abs(row.utilization - utilization) < 0.006) for row in rows))
            for value, rows in lines
        ),
    )


def curves(answer: Answer) -> list[dict[str, Any]]:
    """The charts against concurrency, as the script takes them; none where the set-up does not run."""
    chosen = answer.chosen
    if chosen is None or len(chosen.curve) < 2:
        return []
    target = answer.question.target
    shared = {"x": [point.concurrency for point in chosen.curve], "marks": _marks(chosen)}
    ttft, tpot, tokens = _("Time to first token"), _("Time per output token"), _("Output tokens")
    before = () if answer.before is None else answer.before.curve

    def of(key: str, title: str, unit: str, name: str, limit: float | None) -> dict[str, Any]:
        now, then = ([getattr(point, name) for point in curve] for curve in (chosen.curve, before))
        told = {"before": then, "before_label": _("before calibration")} if then else {}
        return _chart(key, title, unit, now, limit) | shared | told

    if answer.question.model.pools:
        return [of("ttft", _("Time to the answer"), "ms", "ttft_ms", target.ttft_ms)]
    return [
        of("ttft", ttft, "ms", "ttft_ms", target.ttft_ms),
        of("tpot", tpot, "ms", "tpot_ms", target.tpot_ms),
        of("tokens", tokens, "tok/s", "output_tok_s", None),
    ]


def _marks(chosen: Candidate) -> list[dict[str, Any]]:
    return [{"x": chosen.knee.concurrency * chosen.copies, "label": _("knee")}]


def _chart(key: str, title: str, unit: str, y: list[float], limit: float | None) -> dict[str, Any]:
    return {
        "key": key,
        "title": title,
        "unit": unit,
        "y": y,
        "limit": limit,
        "limit_label": _("objective"),
        "x_label": _("Requests at once"),
    }


def calibrated_parts(calibration: Calibration | None) -> list[tuple[str, float]]:
    """What was taken for slower or faster, in the reader's words."""
    if calibration is None:
        return []
    return [
        (words.limit("prompts" if name == "interference" else name), factor)
        for name, factor in calibration.taught.parts
    ]


def knee_point(chosen: Candidate | None) -> Point | None:
    """The point of the curve at the knee, of all copies."""
    if chosen is None:
        return None
    knee = chosen.knee.concurrency * chosen.copies
    return min(chosen.curve, key=lambda point: abs(point.concurrency - knee))


@dataclass(frozen=True, slots=True)
class DroppedOut:
    """One reason, with the splits it holds for: the first ones, and the others as one text."""

    reason: str
    splits: str
    others: str = ""
    others_count: int = 0


def rejected(found: Sequence[Rejection]) -> tuple[list[DroppedOut], list[DroppedOut]]:
    """Why other splits dropped out, each reason once with all its splits: the first reasons, and those behind them."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for one in found:
        grouped.setdefault((one.code, one.reason), []).append(one.split.label)
    told = [_dropped_out(reason, labels) for (_code, reason), labels in grouped.items()]
    return told[:_REASONS_SHOWN], told[_REASONS_SHOWN:]


def _dropped_out(reason: str, labels: Sequence[str]) -> DroppedOut:
    if len(labels) <= _SPLITS_SHOWN:
        return DroppedOut(reason, ", ".join(labels))
    others = labels[_SPLITS_SHOWN:]
    return DroppedOut(reason, ", ".join(labels[:_SPLITS_SHOWN]), ", ".join(others), len(others))


def new_deployment(start: Start) -> str:
    """The address of the form of a new deployment, filled in with this set-up."""
    values: dict[str, object] = {
        "engine": "vllm",
        "variant": start.variant,
        "tensor_parallel": start.tensor_parallel,
        "pipeline_parallel": start.pipeline_parallel,
        "replicas": start.replicas,
        "pool": start.pool,
    }
    values |= {f"settings.{name}": value for name, value in start.settings.items()}
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
    return f"{reverse('deployment-new')}?{urlencode({name: value for name, value in given.items() if value != ''})}"


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def taken(answer: Answer) -> dict[str, str]:
    """What was taken for settings that were left open, as texts of their fields."""
    setup = answer.ledger.setup
    return {
        "max_model_len": str(setup.max_model_len),
        "max_num_seqs": str(setup.max_num_seqs),
        "max_num_batched_tokens": str(setup.max_num_batched_tokens),
        "gpu_memory_utilization": f"{setup.utilization:g}",
        "vllm_version": answer.question.rules.label,
        "tensor_parallel": str(answer.split.tensor),
        "pipeline_parallel": str(answer.split.pipeline),
        "attention_copies": str(answer.split.attention_copies),
        "peak_requests_per_s": _rate(answer.asked.peak_requests_per_s),
        "mean_requests_per_s": _rate(answer.asked.mean_requests_per_s),
        "gpu_memory_total_gib": "" if setup.card.total_bytes is None else f"{setup.card.total_bytes / GIB:.2f}",
        "price_per_hour": "" if answer.question.hardware.price is None else f"{answer.question.hardware.price:g}",
        "link_group": str(answer.question.hardware.joined),
        "ttft_ms": "" if answer.question.target.ttft_ms is None else f"{answer.question.target.ttft_ms:g}",
        "tpot_ms": "" if answer.question.target.tpot_ms is None else f"{answer.question.target.tpot_ms:g}",
    }
