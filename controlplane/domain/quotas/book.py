"""The slice book of one gateway: reserves from what it holds, and says when to talk to Valkey.

Guarantees
    A reservation touches nothing but memory. All limits of a request are reserved, or none. What was reserved is
    given back exactly once, by `settle` (with what was used) or `refund` (nothing was). With every gateway in touch no
    limit is exceeded, but for what requests use above their own estimates; one that is cut off from Valkey, or dead,
    has at most its slice, and of limits a minute its part of the refill, beyond that.
Does not do
    I/O and clocks: `now` is UTC seconds, as near to Valkey's clock as the caller can. `asks` → Valkey → `answered`,
    or `failed`; one exchange at a time.
Concurrency
    One owner (one gateway process); changes in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.domain.quotas.answers import GRANTED, NeedsSlice, QuotaAnswer, QuotaRefusal, contended, refusal
from controlplane.domain.quotas.measures import MEASURES
from controlplane.domain.quotas.meter import Meter
from controlplane.domain.quotas.quota import Quota, Who
from controlplane.domain.quotas.slices import Ask, Reply
from controlplane.domain.quotas.windows import FOREVER

Reserved = tuple[tuple[Meter, ...], int, int, int]  # meters, the count of turns then, tokens, money


class SliceBook:
    """`cut_off_at` tells since when Valkey does not answer (None = it does); `wants_sync` that asking now is better
    than with the next heartbeat."""

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self.meters: dict[str, Meter] = {}
        self.open: dict[str, Reserved] = {}
        self.cut_off_at: float | None = None
        self.wants_sync = False
        self.turned = 0  # times that a new window began for any limit
        self.quotas: tuple[Quota, ...] = ()
        self._of: dict[Who, tuple[Meter, ...]] = {}
        self._active: dict[str, Meter] = {}  # that hold, want or owe something: few of many
        self._hungry: dict[str, Meter] = {}  # whose store is low
        self._gone: dict[str, Meter] = {}  # of quotas that are no more; what they hold has to be given back
        self.set_quotas(quotas)

    def set_quotas(self, quotas: Iterable[Quota]) -> None:
        """Takes over the quotas of a new snapshot. What is known of a limit stays known when its number changes."""
        self.quotas = tuple(quotas)
        self._of.clear()
        meters: dict[str, Meter] = {}
        for quota in self.quotas:
            for name, limit in quota.limits.items():
                measure = MEASURES.get(name)
                if measure is None:
                    continue  # of a newer version
                key = f"{quota.id}:{name}"
                meter = self.meters.pop(key, None) or self._gone.pop(key, None)
                if meter is None:
                    meter = Meter(key, quota, measure, limit)
                meter.quota, meter.limit, meter.retry_at = quota, limit, 0.0
                meters[key] = meter
        for key, meter in self.meters.items():
            meter.limit = 0
            self._gone[key] = meter
            self._active.pop(key, None)
            self._hungry.pop(key, None)
        self.meters = meters

    # -- requests --------------------------------------------------------------------------------------------------

    def reserve(self, request_id: str, who: Who, tokens: int, money: int, now: float) -> QuotaAnswer:
        """Reserves one request with so many estimated tokens (prompt and allowed output) and so much money."""
        return self.reserve_from(self.meters_of(who), request_id, tokens, money, now)

    def meters_of(self, who: Who) -> tuple[Meter, ...]:
        """Returns the limits on these requests; they are the same until the next `set_quotas`."""
        meters = self._of.get(who)
        if meters is None:
            meters = self._of[who] = tuple([one for one in self.meters.values() if one.quota.counts(who)])
        return meters

    def reserve_from(
        self, meters: tuple[Meter, ...], request_id: str, tokens: int, money: int, now: float
    ) -> QuotaAnswer:
        """`reserve` for one who has kept what `meters_of` returned."""
        if not meters:
            return GRANTED
        costs = (1, tokens, money)
        for meter in meters:
            if meter.stock < costs[meter.unit] or meter.ends_at <= now:
                answer = self._short(meters, costs, now)
                if answer is not None:
                    return answer
                break
        for meter in meters:
            amount = costs[meter.unit]
            meter.stock -= amount
            meter.reserved += amount
            meter.drawn += amount
            if meter.stock <= meter.low and meter.asked is None and now >= meter.retry_at:
                self.wants_sync = True
                self._hungry[meter.id] = meter
        self.open[request_id] = (meters, self.turned, tokens, money)
        return GRANTED

    def settle(self, request_id: str, tokens: int, money: int) -> None:
        """The request is over and used so much; again is harmless."""
        self.close(request_id, (1, tokens, money))

    def refund(self, request_id: str) -> None:
        """The request failed and counts for nothing; again is harmless."""
        self.close(request_id, (0, 0, 0))

    # -- Valkey ----------------------------------------------------------------------------------------------------

    def asks(self, now: float, *, hungry_only: bool = False) -> list[Ask]:
        """Returns what to say to Valkey now: call every `HEARTBEAT_S`, and between, with `hungry_only`, when
        `wants_sync` is set."""
        self.wants_sync = False
        hungry, self._hungry = self._hungry, {}
        if hungry_only:
            return [ask for meter in hungry.values() if meter.id in self.meters and (ask := meter.ask(now))]
        self._gone = {key: meter for key, meter in self._gone.items() if meter.leased or meter.reserved}
        for meter in self._gone.values():
            meter.stock = 0
        said: list[Ask] = []
        for meter in (*self._active.values(), *self._gone.values()):
            ask = meter.ask(now)
            if ask is not None:
                said.append(ask)
            else:
                self._active.pop(meter.id, None)
        return said

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        """Valkey has answered all that was asked."""
        self.cut_off_at = None
        for reply in replies:
            meter = self.meters.get(reply.meter) or self._gone.get(reply.meter)
            if meter is not None:
                turn = meter.turn
                meter.answered(reply, now)
                self._note_turn(meter, turn)

    def failed(self, now: float) -> None:
        """Valkey did not answer; from now on this gateway goes on with what it holds."""
        if self.cut_off_at is None:
            self.cut_off_at = now
        for meter in (*self._active.values(), *self._gone.values()):
            meter.lost()

    def leaving(self) -> list[Ask]:
        """Returns the last words of this gateway: everything that no running request holds goes back."""
        for meter in self._active.values():
            meter.stock = min(meter.stock, 0)
            meter.needed = meter.drawn = meter.drawn_before = 0
            meter.drawn_at = -FOREVER
        return self.asks(0.0)

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong; tests call it after every step."""
        reserved: dict[str, int] = {}
        for meters, turned, tokens, money in self.open.values():
            for meter in meters:
                if turned >= meter.turned_at:
                    amount = (1, tokens, money)[meter.measure.unit]
                    reserved[meter.id] = reserved.get(meter.id, 0) + amount
        for meter in (*self.meters.values(), *self._gone.values()):
            promised = reserved.pop(meter.id, 0)
            quiet = meter.id not in self._active and meter.id in self.meters
            assert not quiet or meter.stock == meter.reserved == meter.leased == 0, f"{meter.id} is forgotten"
            assert meter.reserved == promised, f"{meter.id}: {meter.reserved} reserved, {promised} promised"
            assert meter.spent_acked <= meter.spent_total, f"{meter.id}: more acknowledged than spent"
            assert meter.measure.kind != "held" or not meter.spent_total, f"{meter.id}: a place was used up"
            assert meter.measure.kind != "held" or meter.stock >= 0, f"{meter.id}: more places than there are"

    # -- decisions -------------------------------------------------------------------------------------------------

    def _short(self, meters: Sequence[Meter], costs: tuple[int, int, int], now: float) -> QuotaAnswer | None:
        """What to answer where a stock is too small; None when what is there suffices after all."""
        wanting: list[Meter] = []
        for meter in meters:
            amount = costs[meter.unit]
            turn = meter.turn
            if meter.ends_at <= now:
                meter.turn_window(-1, FOREVER)
            if meter.stock < amount:
                self._active[meter.id] = meter
            if meter.stock < amount and self.cut_off_at is not None:
                meter.help_itself(amount, now, self.cut_off_at)
            self._note_turn(meter, turn)
            if meter.stock >= amount:
                continue
            is_vain = now < meter.retry_at and meter.stock + meter.left < amount
            if amount > meter.limit or self.cut_off_at is not None or is_vain:
                return self._refuse(meter, amount, now)
            wanting.append(meter)
        for meter in wanting:
            meter.needed += costs[meter.unit]
            self._hungry[meter.id] = meter
        if not wanting:
            return None
        self.wants_sync = True
        return NeedsSlice(tuple([meter.id for meter in wanting]))

    def _refuse(self, meter: Meter, amount: int, now: float) -> QuotaAnswer:
        return refusal(
            quota=meter.quota.name, measure=meter.measure, limit=meter.limit, amount=amount,
            resets_at=meter.has_room_at(amount, now), now=now, cut_off=self.cut_off_at is not None,
        )  # fmt: skip

    @staticmethod
    def contended(meters: Sequence[Meter], needs: NeedsSlice) -> QuotaRefusal:
        """What to answer a request that has asked Valkey again and again while others took what came."""
        meter = next(one for one in meters if one.id in needs.meters)
        return contended(quota=meter.quota.name, measure=meter.measure, limit=meter.limit)

    def _note_turn(self, meter: Meter, before: int) -> None:
        if meter.turn != before:
            self.turned += 1
            meter.turned_at = self.turned

    def close(self, request_id: str, used: tuple[int, int, int]) -> None:
        """The request is over and used so many requests, tokens and so much money; again is harmless."""
        entry = self.open.pop(request_id, None)
        if entry is None:
            return
        meters, turned, tokens, money = entry
        reserved = (1, tokens, money)
        for meter in meters:
            if turned < meter.turned_at:
                continue  # of a window that is over
            unit = meter.unit
            spent = 0 if meter.held else used[unit]
            meter.reserved -= reserved[unit]
            meter.stock += reserved[unit] - spent
            meter.spent_total += spent
            if meter.stock < 0 and meter.id in self.meters:
                self._active[meter.id] = meter
