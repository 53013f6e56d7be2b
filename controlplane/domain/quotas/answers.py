"""What the slice book answers a request: go on, ask Valkey first, or a refusal that says which quota and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from controlplane.domain.quotas.measures import Measure, shown

RETRY_AFTER_MOST_S = 31 * 86_400
CONTENDED_RETRY_S = 1  # the next exchange with Valkey shares out anew

# as OpenAI names them: the first comes back within minutes, the second is a budget that is used up
Code = Literal["rate_limit_exceeded", "insufficient_quota"]


@dataclass(frozen=True, slots=True)
class Granted:
    """Reserved; `settle` or `refund` must follow."""


@dataclass(frozen=True, slots=True)
class NeedsSlice:
    """This gateway holds too little of these limits and Valkey may have more: sync, then reserve again."""

    meters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """`resets_at` (UTC seconds) is when so much can be had again; None where running requests have to end first."""

    code: Code
    quota: str
    measure: str
    limit: int
    why: str
    resets_at: float | None
    retry_after_s: int


QuotaAnswer = Granted | NeedsSlice | QuotaRefusal
GRANTED = Granted()


def refusal(
    *, quota: str, measure: Measure, limit: int, amount: int, resets_at: float | None, now: float, cut_off: bool
) -> QuotaRefusal:
    """Returns the refusal of a request that asks for `amount` more than the limit has room for."""
    code: Code = "insufficient_quota" if measure.kind in ("day", "month") else "rate_limit_exceeded"
    allowed = f"{shown(measure, limit)} {measure.counted}"
    if amount > limit:
        why = f"This request needs {shown(measure, amount)}, but the quota {quota} allows {allowed}."
        return QuotaRefusal(code, quota, measure.name, limit, why, None, RETRY_AFTER_MOST_S)
    wait_s = 1.0 if resets_at is None else resets_at - now
    retry_after_s = max(1, min(RETRY_AFTER_MOST_S, int(-(-wait_s // 1))))
    if cut_off and resets_at is not None:
        why = (
            f"The quota {quota} allows {allowed}; this gateway can't reach Valkey and has used up its part. There is"
            f" room for this request at {moment(resets_at)}, or as soon as Valkey answers."
        )
    elif cut_off:
        why = f"The quota {quota} allows {allowed}; this gateway can't reach Valkey and has used up its part."
    elif resets_at is None:
        why = f"The quota {quota} allows {allowed}, and so many are running."
    else:
        why = f"The quota {quota} allows {allowed}; there is room for this request at {moment(resets_at)}."
    return QuotaRefusal(code, quota, measure.name, limit, why, resets_at, retry_after_s)


def contended(*, quota: str, measure: Measure, limit: int) -> QuotaRefusal:
    """Returns the refusal of a request from which others have taken each slice that came."""
    code: Code = "insufficient_quota" if measure.kind in ("day", "month") else "rate_limit_exceeded"
    allowed = f"{shown(measure, limit)} {measure.counted}"
    why = f"The quota {quota} allows {allowed}; what is left of it went to other requests at this very moment."
    return QuotaRefusal(code, quota, measure.name, limit, why, None, CONTENDED_RETRY_S)


def moment(at: float) -> str:
    """Returns a time as people read it, rounded up to a second."""
    return f"{datetime.fromtimestamp(int(-(-at // 1)), UTC):%Y-%m-%d %H:%M:%S} UTC"
