"""What replicas of one's own measured: their model, card and engine as the question's, so that they teach its speed.

A replica is of the question's kind by the row of its ledger (engine version, accelerator, family of models); then its
variant has to have the same weights, and its revision the same precisions and speculation or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from controlplane.deployments.models import LedgerRow, Replica, Revision
from controlplane.deployments.planner import subject as subjects
from controlplane.deployments.services import ledgers
from controlplane.domain.desired import attention_copies
from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.parallelism import measured_minutes
from controlplane.domain.parallelism.measured import MeasuredPoint
from controlplane.domain.parallelism.measured_minutes import Minute
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.split import Split
from controlplane.domain.placement_cards import Make
from controlplane.domain.rollups import Span
from controlplane.domain.specs.model import ModelFacts
from controlplane.fleet.models import Accelerator
from controlplane.lib import histograms
from controlplane.telemetry import selectors as telemetry

LOOKED_BACK_DAYS = 14
REMEMBERED_S = 300
_MOST_STARTS = 24  # newest ones that are looked at
_MOST_MINUTES = 400
_LEAST_REQUESTS_A_MINUTE = 3
_SAME_WEIGHTS = 0.01


@dataclass(frozen=True, slots=True)
class Own:
    """Points of one revision's replicas. `origin` says whose they are."""

    points: tuple[MeasuredPoint, ...]
    split: Split
    ledger: Ledger
    origin: str


@dataclass(frozen=True, slots=True)
class _Kind:
    """One revision that ran on such cards with one version of the engine, and its replicas."""

    revision: Revision
    version: str
    split: Split
    ledger: Ledger
    replicas: tuple[str, ...]


def find(question: Question, wished: Split | None, now: datetime, *, any_version: bool) -> Own | None:
    """The measurements that speak for a question: of the wished split where there are some, else most of them.

    `any_version`: those of every version of the engine do, else of the question's alone.
    """
    kinds = _kinds(question, any_version=any_version)
    if not kinds:
        return None
    subjects_of = {f"replica:{replica}": number for number, kind in enumerate(kinds) for replica in kind.replicas}
    minutes: list[list[Minute]] = [[] for _ in kinds]
    for subject, minute in _minutes(tuple(sorted(subjects_of)), int(now.timestamp()) // REMEMBERED_S):
        minutes[subjects_of[subject]].append(minute)
    found = [own for kind, of in zip(kinds, minutes, strict=True) if (own := _own(kind, of)) is not None]
    return max(found, key=lambda own: (own.split == wished, len(own.points)), default=None)


def _kinds(question: Question, *, any_version: bool) -> list[_Kind]:
    rows = LedgerRow.objects.filter(accelerator=question.hardware.accelerator.name, family=question.model.family)
    if not any_version:
        rows = rows.filter(engine_version=".".join(str(part) for part in question.rules.version[:2]))
    versions = dict(rows.values_list("replica", "engine_version")[:_MOST_STARTS])
    if not versions:
        return []
    replicas = Replica.objects.filter(pk__in=versions).select_related(
        "revision", "deployment", "deployment__variant", "deployment__variant__model"
    )
    by_revision: dict[tuple[int, str], list[Replica]] = {}
    for replica in replicas.order_by("created_at"):
        by_revision.setdefault((replica.revision_id, versions[replica.pk]), []).append(replica)
    found = (_kind(question, members, version) for (_, version), members in by_revision.items())
    return [kind for kind in found if kind is not None]


def _kind(question: Question, replicas: Sequence[Replica], version: str) -> _Kind | None:
    """The revision of some replicas, where it is as the question's set-up."""
    variant, revision = replicas[0].deployment.variant, replicas[0].revision
    if variant is None:
        return None
    try:
        if not _is_same(subjects.of_variant(variant).facts, question.model):
            return None
    except RefusedError:
        return None
    card = question.hardware.accelerator
    total = question.hardware.card.total_bytes
    known = ledgers.of_spec(variant, revision.spec, Make(Accelerator.Kind.GPU, card.name, total, version))
    if not isinstance(known, ledgers.Known):
        return None
    setup, precision = known.ledger.setup, question.precision
    if (setup.precision.weights, setup.precision.kv) != (precision.weights, precision.kv):
        return None
    if (setup.draft is None) != (question.wishes.speculative is None):
        return None
    settings = revision.spec.get("settings", {})
    copies = attention_copies(settings)
    experts = settings.get("enable_expert_parallel") is True or copies > 1
    split = Split(setup.tensor_parallel, setup.pipeline_parallel, copies, experts)
    return _Kind(revision, version, split, known.ledger, tuple(one.pk for one in replicas))


def _is_same(own: ModelFacts, asked: ModelFacts) -> bool:
    shape = (own.num_hidden_layers, own.hidden_size) == (asked.num_hidden_layers, asked.hidden_size)
    return shape and abs(own.parameters / asked.parameters - 1) < _SAME_WEIGHTS


@lru_cache(maxsize=64)
def _minutes(subjects_asked: tuple[str, ...], at: int) -> tuple[tuple[str, Minute], ...]:
    """Minutes of traffic up to a time in units of REMEMBERED_S, so that dragging reads them once."""
    now = datetime.fromtimestamp((at + 1) * REMEMBERED_S, UTC)
    seen = telemetry.busy_minutes(
        subjects_asked, now, days=LOOKED_BACK_DAYS, requests=_LEAST_REQUESTS_A_MINUTE, most=_MOST_MINUTES
    )
    known = ((subject, _minute(span)) for subject, span in seen)
    return tuple((subject, minute) for subject, minute in known if minute is not None)


def forget() -> None:
    """Forgets the minutes that were read."""
    _minutes.cache_clear()


def _minute(span: Span) -> Minute | None:
    tpot_s = histograms.mean_s(span.histograms.get("tpot", {}))
    running = span.gauges.get("running") or span.gauges.get("gateway_in_flight")
    requests = span.counters.get("requests", 0)
    if tpot_s is None or running is None or requests <= 0:
        return None
    prompts, answers = (span.counters.get(f"{name}_tokens", 0) / requests for name in ("prompt", "output"))
    return Minute(
        running[0],
        requests,
        tpot_s,
        histograms.mean_s(span.histograms.get("ttft", {})),
        prompts or None,
        answers or None,
    )


def _own(kind: _Kind, minutes: Iterable[Minute]) -> Own | None:
    seen = list(minutes)
    seats = kind.ledger.setup.max_num_seqs * kind.split.attention_copies
    points = measured_minutes.points(seen, seats)
    if not points:
        return None
    revision = kind.revision
    origin = (
        f"Measured by {revision.deployment.name}, revision {revision.number}, as {kind.split.label} with vLLM "
        f"{kind.version}: replicas {len(kind.replicas)}, minutes of traffic in the last two weeks {len(seen)}."
    )
    return Own(points, kind.split, kind.ledger, origin)
