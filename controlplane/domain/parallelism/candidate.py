"""One split that fits, with its ledger, its predicted latency at the asked load, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from controlplane.domain.ledger.result import Ledger
from controlplane.domain.parallelism import cost, speed, trials
from controlplane.domain.parallelism.copies import Fitting
from controlplane.domain.parallelism.layout import Layout
from controlplane.domain.parallelism.question import Load, Question
from controlplane.domain.parallelism.split import Split
from controlplane.domain.parallelism.trials import Trials
from controlplane.domain.performance.curve import Knee, Point

HEAD_ROOM = 0.85  # share of what is carried within the objective up to which a load counts as carried at ease


@dataclass(frozen=True, slots=True)
class Candidate:
    """All points are of all copies together; `ledger` is of one card, `knee` of one copy.

    `at_load`: at the asked load, or at what is carried where none was asked. `saturated`: the load is more than it
    completes. `carried`: the largest load within the objective, None = even one request at a time is slower. `most`:
    full use, whatever the latency. Costs are per million output tokens, in the price's currency, idle cards included.
    `communication_share` is of a decoding step at the asked load.
    """

    split: Split
    layout: Layout
    ledger: Ledger
    at_load: Point
    carried: Point | None
    most: Point
    curve: tuple[Point, ...]
    knee: Knee
    saturated: bool
    meets_objective: bool
    at_ease: bool
    excess: float
    communication_share: float
    cost_at_load: float | None
    cost_when_full: float | None
    copies_needed: int | None = None  # that carry the asked load at ease; None without one, or where all do not
    reasons: tuple[str, ...] = ()

    @property
    def copies(self) -> int:
        """Copies of the model, each with all its weights."""
        return self.layout.copies

    @property
    def cards_needed(self) -> int | None:
        """Cards of the copies that carry the asked load at ease."""
        return None if self.copies_needed is None else self.copies_needed * self.split.cards

    @property
    def cards(self) -> int:
        """Cards that work."""
        return self.copies * self.split.cards


def work_out(question: Question, fitting: Fitting, tries: Trials | None = None) -> Candidate:
    """The figures of one split; reasons come with the ranking."""
    copy, found = trials.of(question, tries).speed(fitting)
    copies = fitting.layout.copies
    asked, saturated = _asked(copy, found, question.load, copies)
    meets = not saturated and speed.meets(asked, question.target)
    price, held = question.hardware.price, question.hardware.cards
    full = found.most if question.purpose == "offline" else found.carried
    at_load = _of_load(_all(asked, copies), question.load)
    carried = None if found.carried is None else _all(found.carried, copies)
    return Candidate(
        split=fitting.split,
        layout=fitting.layout,
        ledger=fitting.ledger,
        at_load=at_load,
        carried=carried,
        most=_all(found.most, copies),
        curve=tuple(_all(point, copies) for point in found.points),
        knee=found.knee,
        saturated=saturated,
        meets_objective=meets,
        at_ease=meets and carried is not None and _use(question.load, carried) <= HEAD_ROOM,
        excess=speed.excess(asked, question.target),
        communication_share=copy.communication_share(asked.running),
        cost_at_load=cost.per_million_tokens(held, price, at_load.output_tok_s),
        copies_needed=_needed(question.load, carried, copies) if meets else None,
        cost_when_full=None if full is None else cost.per_million_tokens(held, price, full.output_tok_s * copies),
    )


def _asked(copy: speed.Copy, found: speed.Speed, load: Load, copies: int) -> tuple[Point, bool]:
    """The point of one copy at its share of the load, and whether the load is more than it completes."""
    if load.requests_per_s is not None:
        point, completes = speed.at_rate(copy, found, load.requests_per_s / copies)
        return point, not completes
    if load.concurrency is not None:
        each = load.concurrency / copies
        return copy.point(each), each > max(found.seats, 1.0)
    offline = copy.question.purpose == "offline"
    return found.most if offline or found.carried is None else found.carried, False


def _of_load(point: Point, load: Load) -> Point:
    """The point with no more requests than were asked for: copies idle at times, or some of them all the time."""
    share = 1.0
    if load.requests_per_s is not None:
        share = load.requests_per_s / point.requests_s
    elif load.concurrency is not None:
        share = load.concurrency / point.concurrency
    if share >= 1.0:
        return point
    return replace(
        point,
        concurrency=point.concurrency * share,
        running=point.running * share,
        output_tok_s=point.output_tok_s * share,
        requests_s=point.requests_s * share,
    )


def _needed(load: Load, carried: Point | None, copies: int) -> int | None:
    """Copies, at most those that there are; None where these are not enough, or nothing was asked."""
    if carried is None:
        return None
    needed = ceil(_use(load, carried) * copies / HEAD_ROOM)
    return needed if 0 < needed <= copies else None


def _use(load: Load, carried: Point) -> float:
    """The asked load as a share of what is carried within the objective; 0 where none was asked."""
    if load.requests_per_s is not None:
        return load.requests_per_s / carried.requests_s
    return 0.0 if load.concurrency is None else load.concurrency / carried.concurrency


def _all(point: Point, copies: int) -> Point:
    """The point of one copy as it is of all of them."""
    return replace(
        point,
        concurrency=point.concurrency * copies,
        running=point.running * copies,
        output_tok_s=point.output_tok_s * copies,
        requests_s=point.requests_s * copies,
    )
