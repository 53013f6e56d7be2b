"""One limit as one gateway knows it: what it holds, what is reserved of that, and what it heard of the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from controlplane.domain.quotas import slices
from controlplane.domain.quotas.measures import MINUTE_S, Kind, Measure
from controlplane.domain.quotas.quota import Quota
from controlplane.domain.quotas.slices import Ask, Reply
from controlplane.domain.quotas.windows import FOREVER, window_of

PACE_S = 5.0  # a pace fades with this e-folding time
PACE_LEAST_S = 0.25  # it is not reckoned from less time than this
IDLE_S = 10.0  # what was not used for so long is given back
RETRY_LEAST_S, RETRY_MOST_S = 0.05, 0.5  # after a vain ask nobody asks again sooner: others may give back meanwhile


@dataclass(slots=True, eq=False)
class Meter:
    """`stock` may be used now; `reserved` is promised to running requests. A stock below zero is a debt: a request used
    more than was reserved for it."""

    id: str
    quota: Quota
    measure: Measure
    limit: int
    unit: int = field(init=False)  # the measure's own, and whether it is held: looked at for every request
    kind: Kind = field(init=False)
    held: bool = field(init=False)
    stock: int = 0
    reserved: int = 0
    spent_total: int = 0
    spent_acked: int = 0
    needed: int = 0  # what requests wait for that a slice has to bring
    low: int = 0  # below this it asks for more
    drawn: int = 0  # reserved since the pace was last reckoned
    drawn_before: int = 0  # the same at the last ask
    pace_per_s: float = 0.0
    pace_at: float = 0.0
    drawn_at: float = 0.0  # of the first ask after it
    left: int = 0
    left_at: float = 0.0
    gateways: int = 1
    window: int = -1
    ends_at: float = FOREVER
    turn: int = 0  # grows with each new window
    turned_at: int = 0  # the book's count of turns after the last one: an earlier reservation counts no more here
    retry_at: float = 0.0  # asking sooner is of no use
    filled_at: float = 0.0  # until then it has filled itself up without Valkey
    short: bool = False
    asked: Ask | None = None  # under way
    repaid: int = 0  # debt that Valkey is told of as spent
    leased: int = 0  # what Valkey believes that this gateway holds

    def __post_init__(self) -> None:
        self.unit, self.kind, self.held = self.measure.unit, self.measure.kind, self.measure.kind == "held"

    # -- requests --------------------------------------------------------------------------------------------------

    def turn_window(self, window: int, ends_at: float) -> None:
        """A new window begins: what is held and reserved belongs to the one that is over."""
        self.window, self.ends_at = window, ends_at
        self.stock = self.reserved = self.needed = self.repaid = 0
        self.spent_acked = self.spent_total  # the old window's spending is not the new one's
        self.turn += 1
        self.retry_at = 0.0

    # -- Valkey ----------------------------------------------------------------------------------------------------

    def ask(self, now: float) -> Ask | None:
        """Returns what to say to Valkey now; None where there is nothing to say."""
        if self.drawn > self.drawn_before:
            self.drawn_at, self.drawn_before = now, self.drawn
        self._reckon_pace(now)
        goal = self._goal()
        self.low = goal // 2
        needed = max(0, self.needed - self.stock) if self.needed else 0
        self.needed = 0
        idle = not needed and now - self.drawn_at > IDLE_S
        if self.short and self.stock > 0 and not needed:
            self.stock //= 2  # somebody else is refused for want of this
        elif idle:
            self.stock = min(self.stock, 0)
        elif self.stock > 2 * goal and not needed:
            self.stock = goal
        wanted = 0 if idle or (self.short and not needed) or self.stock > self.low else goal - self.stock
        held = max(0, self.stock + self.reserved)
        if not (held or self.leased or needed or wanted) and self.spent_total == self.spent_acked:
            return None
        self.repaid = held - (self.stock + self.reserved)
        spare = min(held, max(0, self.stock))
        self.asked = Ask(
            self.id, self.measure.kind, self.limit, self.spent_total, self.spent_acked, held, spare,
            max(wanted, needed), needed, self.window,
        )  # fmt: skip
        return self.asked

    def answered(self, reply: Reply, now: float) -> None:
        """Takes over what Valkey said."""
        ask, self.asked = self.asked, None
        if ask is None:
            return
        if reply.window != self.window:
            if self.window == -1:
                self.window, self.ends_at = reply.window, reply.ends_at
            else:
                self.turn_window(reply.window, reply.ends_at)
        if ask.window in (-1, reply.window):
            self.stock += reply.granted - reply.taken_back + self.repaid
            self.spent_acked = ask.spent_total
        else:
            self.stock += reply.granted
            self.spent_acked = max(self.spent_acked, ask.spent_total)
        self.leased = ask.held - reply.taken_back + reply.granted
        self.repaid = 0
        self.short = reply.short and reply.granted == 0
        self.left, self.left_at, self.gateways = reply.left, now, reply.gateways
        missing = max(ask.needed, min(ask.wanted, 1)) - reply.granted
        self.retry_at = now + self._wait_s(missing - reply.left) if missing > 0 else 0.0

    def lost(self) -> None:
        """The ask under way had no answer. It is said anew with the next one: nothing in it is a difference."""
        if self.asked is not None:
            self.needed = max(self.needed, self.asked.needed)
        self.asked = None
        self.repaid = 0

    # -- without Valkey --------------------------------------------------------------------------------------------

    def help_itself(self, amount: int, now: float, cut_off_at: float) -> None:
        """Valkey is gone and the stock is too small: takes what this gateway may have without asking.

        A limit a minute goes on filling at this gateway's part, up to a slice. One that this gateway holds nothing
        of yet, in this window, gives one slice on credit; that is the slice by which a limit may be overshot. Places
        come back by themselves, so of them a gateway that knows how many there are has an equal part.
        """
        if self.measure.kind == "refilled":
            since = max(self.filled_at, cut_off_at)
            gained = int((now - since) * slices.refill_per_s(self.limit) / self.gateways)
            room = max(slices.first(self.limit, self.gateways), amount)
            if gained > 0 and self.stock < room:
                self.stock = min(room, self.stock + gained)
                self.filled_at = now
        if self.window == -1:
            self.turn_window(*window_of(self.measure.kind, now))
            most = min(amount, slices.largest(self.limit, self.gateways))
            self.stock = min(self.limit, max(slices.first(self.limit, self.gateways), most))
        elif self.held and self.reserved + amount <= self.limit // self.gateways:
            self.stock = max(self.stock, amount)

    # -- what is told ----------------------------------------------------------------------------------------------

    def remaining(self, now: float) -> int:
        """Returns what can still be had, as far as this gateway knows."""
        limit, shared = self.limit, self.left
        if self.kind == "refilled":
            shared = int(shared + max(0.0, now - self.left_at) * limit / MINUTE_S)
        left = self.stock + shared if shared > 0 else self.stock
        return limit if left > limit else max(0, left)

    def has_room_at(self, amount: int, now: float) -> float | None:
        """Returns when so much can be had again; None where that depends on when running requests end, or never is."""
        if self.measure.kind == "held" or amount > self.limit:
            return None
        if self.measure.kind == "refilled":
            return now + max(0.0, amount - self.remaining(now)) / slices.refill_per_s(self.limit)
        return window_of(self.measure.kind, now)[1]

    def _goal(self) -> int:
        if self.measure.kind == "held":  # slots come back by themselves, so a part of those in use suffices
            return min(slices.largest(self.limit, self.gateways), 1 + self.reserved // 2)
        if self.window == -1:
            return slices.first(self.limit, self.gateways)
        return slices.target(self.limit, self.gateways, self.pace_per_s)

    def _wait_s(self, missing: int) -> float:
        if self.measure.kind != "refilled":
            return RETRY_MOST_S
        rate = slices.refill_per_s(self.limit)
        return min(RETRY_MOST_S, max(RETRY_LEAST_S, missing / rate)) if rate else RETRY_MOST_S

    def _reckon_pace(self, now: float) -> None:
        """What was drawn a second: rises at once, fades slowly."""
        elapsed_s = now - self.pace_at
        if 0.0 <= elapsed_s < PACE_LEAST_S:
            return
        elapsed_s = min(60.0, max(PACE_LEAST_S, elapsed_s))
        kept, recent = math.exp(-elapsed_s / PACE_S), self.drawn / elapsed_s
        self.pace_per_s = max(recent, self.pace_per_s * kept + recent * (1.0 - kept))
        self.drawn, self.drawn_before, self.pace_at = 0, 0, now
