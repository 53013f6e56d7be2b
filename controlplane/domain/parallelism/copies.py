"""Every split tried on the cards: worked out as far as it goes, or rejected with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.parallelism import copy_ledger, layout, rejection, split
from controlplane.domain.parallelism.layout import Layout
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.rejection import Rejection
from controlplane.domain.parallelism.split import Split


@dataclass(frozen=True, slots=True)
class Fitting:
    """A split that fits, before anything was said about its speed."""

    split: Split
    layout: Layout
    ledger: Ledger


def fitting(question: Question) -> tuple[list[Fitting], list[Rejection]]:
    """Splits that start, with the fewest stages of their kind, and those that don't or that have more of them."""
    found: list[Fitting] = []
    rejected: list[Rejection] = []
    for candidate in split.every(question.model, question.hardware):
        wrong = rejection.by_precision(candidate, question.precision, question.hardware)
        wrong = wrong or rejection.by_shape(candidate, question.model, question.hardware)
        wrong = wrong or _by_depth(question, candidate, found)
        if wrong is None:
            tried = _tried(question, candidate)
            if isinstance(tried, Fitting):
                found.append(tried)
            else:
                rejected.append(tried)
        else:
            rejected.append(wrong)
    return found, rejected


def _by_depth(question: Question, candidate: Split, found: list[Fitting]) -> Rejection | None:
    """More stages than one of its kind that starts: needless, so nothing more is worked out for it."""
    if not any(_is_shallower(one.split, candidate) for one in found):
        return None
    simpler = next(one.split for one in found if _is_simpler(question, one.split, candidate))
    return rejection.needless_pipeline(candidate, simpler)


def without_needless_pipelines(question: Question, found: list[Fitting]) -> tuple[list[Fitting], list[Rejection]]:
    """Drops pipelines where a copy without stages does, and has no PCIe in between.

    Over PCIe alone tensor parallelism is slow, so a pipeline may be better there and stays a candidate.
    """
    kept: list[Fitting] = []
    rejected: list[Rejection] = []
    for one in found:
        simpler = next((other for other in found if _is_simpler(question, other.split, one.split)), None)
        if simpler is None:
            kept.append(one)
        else:
            rejected.append(rejection.needless_pipeline(one.split, simpler.split))
    return kept, rejected


def _is_shallower(other: Split, one: Split) -> bool:
    same = (other.tensor, other.attention_copies, other.experts) == (one.tensor, one.attention_copies, one.experts)
    return same and other.pipeline < one.pipeline


def _is_simpler(question: Question, other: Split, one: Split) -> bool:
    plain = other.attention_copies == 1 and not other.experts
    linked = other.tensor == 1 or other.tensor <= question.hardware.joined
    whole = plain and linked and other.pipeline == 1
    return _is_shallower(other, one) or (whole and one.pipeline > 1)


def _tried(question: Question, candidate: Split) -> Fitting | Rejection:
    try:
        ledger = copy_ledger.of(question, candidate)
    except RefusedError as refused:
        if not refused.fields.keys() & {"tensor_parallel", "pipeline_parallel"}:
            raise  # settings that no split would make right
        return Rejection(candidate, "heads", refused.message)
    lengths = question.load.lengths
    wrong = rejection.by_memory(candidate, ledger, lengths.input_tokens + lengths.output_tokens)
    return Fitting(candidate, layout.lie(candidate, question.hardware), ledger) if wrong is None else wrong
