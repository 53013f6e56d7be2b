"""Which measured points count for a question, and the question as they teach it.

Points that are given go before those of one's own replicas. They are of the split that is asked for, or of the one that
is best before anything was taught.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.utils import timezone

from controlplane.deployments.planner import own_measurements, splits
from controlplane.deployments.planner.inputs import Inputs
from controlplane.domain.errors import RefusedError
from controlplane.domain.parallelism import copy_ledger, layout, measured, ranking, rejection
from controlplane.domain.parallelism.measured import Taught
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.speed import Copy
from controlplane.domain.parallelism.split import Split
from controlplane.domain.parallelism.trials import Trials

Source = Literal["given", "own"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was taught, by whose points, of which split; `origin` says it. `plain` tells what was predicted before."""

    taught: Taught
    split: Split
    source: Source
    origin: str
    plain: Trials


def of(inputs: Inputs, question: Question, plain: Trials) -> Calibration | None:
    """What measured points teach of a question; None where there are none, or where their split does not run."""
    if inputs.points:
        split = splits.shown(inputs, ranking.rank(question, plain))
        copy = _copy(question, split)
        if copy is None:
            return None
        origin = f"The points are taken for those of one replica as {split.label}."
        return Calibration(measured.teach(copy, inputs.points), split, "given", origin, plain)
    if not inputs.own_measurements:
        return None
    wished, any_version = splits.given(inputs), not inputs.vllm_version
    own = own_measurements.find(question, wished, timezone.now(), any_version=any_version)
    if own is None:
        return None
    copy = Copy(question, own.split, own.ledger, layout.lie(own.split, question.hardware))
    return Calibration(measured.teach(copy, own.points), own.split, "own", own.origin, plain)


def _copy(question: Question, split: Split) -> Copy | None:
    """One copy of a split that starts."""
    if rejection.by_precision(split, question.precision, question.hardware) or rejection.by_shape(
        split, question.model, question.hardware
    ):
        return None
    try:
        ledger = copy_ledger.of(question, split)
    except RefusedError:
        return None  # said where the split itself is worked out
    lengths = question.load.lengths
    if rejection.by_memory(split, ledger, lengths.input_tokens + lengths.output_tokens):
        return None
    return Copy(question, split, ledger, layout.lie(split, question.hardware))
