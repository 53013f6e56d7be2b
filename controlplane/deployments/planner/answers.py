"""The planner's answer: one set-up with its ledger, its speed, what would be if, and how it could be split instead.

Decisions are the domain's; here they are asked for one after the other. Everything together takes some tens of
milliseconds of one core, so that a page can ask again at every movement of a slider.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from controlplane.deployments.planner import calibration as calibrations
from controlplane.deployments.planner import question as questions
from controlplane.deployments.planner import splits, workload
from controlplane.deployments.planner import subject as subjects
from controlplane.deployments.planner.calibration import Calibration
from controlplane.deployments.planner.inputs import Inputs
from controlplane.deployments.planner.subject import Subject
from controlplane.deployments.planner.workload import Asked
from controlplane.deployments.services.fleet_cards import Standing
from controlplane.domain.capacity import rated, sizing
from controlplane.domain.capacity.rated import CardRate
from controlplane.domain.capacity.sizing import Sizing, Supply
from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger import what_if
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.ledger.what_if import PrecisionRow, TriangleRow
from controlplane.domain.parallelism import candidate, copy_ledger, layout, ranking, rejection, speed, stages
from controlplane.domain.parallelism.candidate import Candidate
from controlplane.domain.parallelism.copies import Fitting
from controlplane.domain.parallelism.layout import Layout
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.ranking import Ranking
from controlplane.domain.parallelism.split import Split
from controlplane.domain.parallelism.stages import Stage
from controlplane.domain.parallelism.trials import Trials

_FIELDS = {
    "kv_cap_bytes": "kv_cache_memory_gib",
    "foreign_bytes": "foreign_gib",
    "reserve_bytes": "reserve_gib",
    "total_bytes": "gpu_memory_total_gib",
    "utilization": "gpu_memory_utilization",
    "architecture": "config",
    "cpu_offload_bytes": "cpu_offload_gib",
    "adapters": "max_loras",
    "adapter_rank": "max_lora_rank",
}
_LENGTH_SHARES = (0.25, 0.5, 1.0, 2.0)
_SEATS_SHARES = (0.25, 0.5, 1.0, 2.0)
_UTILIZATIONS = (0.80, 0.85, 0.90, 0.95)
_LEAST_LENGTH = 256


@dataclass(frozen=True, slots=True)
class Answer:
    """`split_was_given`: by the question, else it is the best of the ranking. `chosen` None = this split does not run,
    `why_not` says why. `lengths` and `seats` are the faces of the triangle: rows of one other setting each, with all
    shares of the card."""

    subject: Subject
    question: Question
    split: Split
    split_was_given: bool
    copies: int
    ledger: Ledger
    chosen: Candidate | None
    why_not: str
    ranking: Ranking
    precisions: tuple[PrecisionRow, ...]
    lengths: tuple[tuple[TriangleRow, ...], ...]
    seats: tuple[tuple[TriangleRow, ...], ...]
    asked: Asked
    stages: tuple[Stage, ...]
    trials: Trials  # for what else is asked about the same requests
    fleet_notes: tuple[str, ...] = ()  # whose price and version were taken where none is given
    calibration: Calibration | None = None
    before: Candidate | None = None  # `chosen` without the calibration

    @property
    def assumptions(self) -> tuple[str, ...]:
        notes = (*self.asked.notes, *self.fleet_notes)
        return tuple(dict.fromkeys((*notes, *self.ledger.assumptions, *self.question.assumptions())))

    @property
    def length_warning(self) -> str:
        """What is wrong with the longest requests; the empty text where nothing is known to be."""
        return self.asked.warning(self.ledger.setup.max_model_len)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Both ways: what a demand takes (None where no rate is given), and what the cards carry."""

    needed: Sizing | None
    carried: Supply
    asked: Asked
    calibration: Calibration | None = None


def estimate(inputs: Inputs) -> Answer:
    """The answer to a question. Raises RefusedError naming the field that can't be."""
    with told_by_field():
        return _estimate(inputs)


def _estimate(inputs: Inputs) -> Answer:
    subject = subjects.find(inputs)
    asked = workload.of(inputs, writes=not subject.facts.pools)
    standing = questions.standing_of(inputs)
    question = questions.of(inputs, subject, asked, standing)
    question, tried, calibration = _calibrated(inputs, question)
    ranked = ranking.rank(question, tried)
    split = splits.shown(inputs, ranked)
    known = next((one for one in ranked.candidates if one.split == split), None)
    ledger = copy_ledger.of(question, split) if known is None else known.ledger
    place = layout.lie(split, question.hardware)
    chosen, why_not = (known, "") if known is not None else _worked_out(question, split, ledger, place, tried)
    return Answer(
        subject=subject,
        question=question,
        split=split,
        split_was_given=inputs.split_was_given,
        copies=place.copies,
        ledger=replace(ledger, advice=(*ledger.advice, *standing.advice)),
        chosen=chosen,
        why_not=why_not,
        ranking=ranked,
        precisions=_precisions(question, split, ledger, place, chosen),
        lengths=_faces(ledger, _lengths(ledger), [ledger.setup.max_num_seqs]),
        seats=_faces(ledger, [ledger.setup.max_model_len], _seats(ledger)),
        asked=asked,
        stages=stages.of(ledger, split.ranks),
        trials=tried,
        fleet_notes=_taken_of(standing, inputs),
        calibration=calibration,
        before=None if calibration is None or chosen is None else _before(calibration, question, chosen),
    )


def _taken_of(standing: Standing, inputs: Inputs) -> tuple[str, ...]:
    price = standing.note if inputs.price_per_hour is None else ""
    version = "" if inputs.vllm_version else standing.engine_note
    return tuple(note for note in (price, version) if note)


def _calibrated(inputs: Inputs, question: Question) -> tuple[Question, Trials, Calibration | None]:
    """The question as measured points teach it, and what is tried for it."""
    plain = Trials(question)
    found = calibrations.of(inputs, question, plain)
    if found is None:
        return question, plain, None
    taught = found.taught.applied(question)
    return taught, plain.calibrated(taught), found


def _before(calibration: Calibration, question: Question, chosen: Candidate) -> Candidate:
    """What is shown, as it was predicted before anything was measured."""
    plain = replace(question, factors={}, first_token_factor=1.0)
    return candidate.work_out(plain, Fitting(chosen.split, chosen.layout, chosen.ledger), calibration.plain)


def capacity(inputs: Inputs) -> Capacity:
    """Both directions of the capacity plan. Raises RefusedError naming the field."""
    with told_by_field():
        subject = subjects.find(inputs)
        asked = workload.of(inputs, writes=not subject.facts.pools)
        question = questions.of(inputs, subject, asked, questions.standing_of(inputs))
        question, tried, calibration = _calibrated(inputs, question)
        split = splits.shown(inputs, ranking.rank(question, tried)) if _card_rate(inputs).is_given else None
        return replace(_capacity(question, asked, inputs, tried, split), calibration=calibration)


def capacity_of(answer: Answer, inputs: Inputs) -> Capacity:
    """The same for a question that is already answered, with what was tried for it."""
    with told_by_field():
        return _capacity(answer.question, answer.asked, inputs, answer.trials, answer.split)


def _capacity(question: Question, asked: Asked, inputs: Inputs, tried: Trials, split: Split | None) -> Capacity:
    """`split` is what a measured rate is of."""
    demand, policy = asked.demand(), questions.policy_of(inputs)
    policy.check()
    rate = _card_rate(inputs)
    if rate.is_given and split is not None:
        replica, of = rate.replica(split, asked.output.mean), (split, copy_ledger.of(question, split))
        sized = None if demand is None else rated.size(question, demand, policy, replica, of)
        return Capacity(sized, rated.carry(question, policy, replica, of), asked)
    needed = None if demand is None else sizing.size(question, demand, policy, tried)
    return Capacity(needed, sizing.carry(question, policy, tried), asked)


def _card_rate(inputs: Inputs) -> CardRate:
    return CardRate(inputs.requests_per_s_a_card, inputs.tokens_per_s_a_card)


@contextmanager
def told_by_field() -> Iterator[None]:
    """A refusal inside names the fields of the question, where the domain knows them by other names."""
    try:
        yield
    except RefusedError as refused:
        fields = {_FIELDS.get(name, name): right for name, right in refused.fields.items()}
        raise RefusedError(refused.code, refused.message, kind=refused.kind, hint=refused.hint, fields=fields) from None


def _worked_out(
    question: Question, split: Split, ledger: Ledger, place: Layout, tried: Trials
) -> tuple[Candidate | None, str]:
    """A split that the ranking left out, with its figures where it runs at all."""
    lengths = question.load.lengths
    wrong = (
        rejection.by_precision(split, question.precision, question.hardware)
        or rejection.by_shape(split, question.model, question.hardware)
        or rejection.by_memory(split, ledger, lengths.input_tokens + lengths.output_tokens)
    )
    if wrong is not None:
        return None, wrong.reason
    return candidate.work_out(question, Fitting(split, place, ledger), tried), ""


def _precisions(
    question: Question, split: Split, ledger: Ledger, place: Layout, chosen: Candidate | None
) -> tuple[PrecisionRow, ...]:
    """The table of precisions; time per token at as many requests as the set-up itself was asked with."""
    copies = max(1, place.copies)
    asked = 1.0 if chosen is None else chosen.at_load.concurrency / copies

    def tpot_s(other: Ledger) -> float | None:
        if not other.verdict.fits:
            return None
        copy = speed.Copy(replace(question, precision=other.setup.precision), split, other, place)
        return copy.point(min(asked, copy.seats)).tpot_ms / 1000

    return what_if.precision_table(ledger.setup, expected_tpot=tpot_s, correction=question.correction)


def _lengths(ledger: Ledger) -> list[int]:
    now = ledger.setup.max_model_len
    limit = max(now, ledger.setup.model.max_position_embeddings or 2 * now)
    return sorted({min(limit, max(_LEAST_LENGTH, round(now * share))) for share in _LENGTH_SHARES})


def _seats(ledger: Ledger) -> list[int]:
    now = ledger.setup.max_num_seqs
    return sorted({max(1, round(now * share)) for share in _SEATS_SHARES})


def _faces(ledger: Ledger, lengths: list[int], seats: list[int]) -> tuple[tuple[TriangleRow, ...], ...]:
    shares = sorted({*_UTILIZATIONS, round(ledger.setup.utilization, 2)})
    rows = what_if.triangle(
        ledger.setup, lengths=lengths, sequences=seats, utilizations=shares, correction=ledger.correction
    )
    return tuple(rows[at : at + len(shares)] for at in range(0, len(rows), len(shares)))
