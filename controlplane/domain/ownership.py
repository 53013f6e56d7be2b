"""Which gateway process owns a deployment: its queue, seats and KV ledger live there, and only there; and which one
has to be given up.

Rendezvous hashing (Thaler, Ravishankar 1998): every member works out the same owner from the same list without asking
anybody, and when a member comes or goes only the deployments move that it gets or had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

HUNG_AFTER_S = 1.0  # of time that it could have used
SILENT_S = 5.0  # also without a CPU: a machine that is short of them shall not move deployments to and fro


def owner(deployment: str, members: Iterable[str]) -> str | None:
    """Returns the member that owns a deployment, whatever the order of `members`; None when there are none."""
    return max(members, key=lambda member: (_score(deployment, member), member), default=None)


def _score(deployment: str, member: str) -> bytes:
    # a name holds no NUL, so no two pairs have the same text
    return hashlib.blake2b(f"{deployment}\0{member}".encode(), digest_size=8).digest()


def could_have_answered_s(silent_s: float, ran_s: float, waited_s: float, *, wants_cpu: bool) -> float:
    """Returns for how much of `silent_s` a process could have answered. In that time it has run for `ran_s` and waited
    for a CPU for `waited_s`; what it waits for just now is not counted there, so of one that `wants_cpu` (or waits for
    its disk) only what it ran is sure."""
    return ran_s if wants_cpu else max(0.0, silent_s - waited_s)


def is_hung(silent_s: float, could_s: float | None) -> bool:
    """Returns whether a process that has been asked hangs: it was silent although it could have answered for a time
    (None = not known), or for so long that nobody can wait any more."""
    return silent_s > SILENT_S or (could_s is not None and could_s > HUNG_AFTER_S)
