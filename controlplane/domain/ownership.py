"""Which gateway process owns a deployment: its queue, seats and KV ledger live there, and only there.

Rendezvous hashing (Thaler, Ravishankar 1998): every member works out the same owner from the same list without asking
anybody, and when a member comes or goes only the deployments move that it gets or had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def owner(deployment: str, members: Iterable[str]) -> str | None:
    """Returns the member that owns a deployment, whatever the order of `members`; None when there are none."""
    return max(members, key=lambda member: (_score(deployment, member), member), default=None)


def _score(deployment: str, member: str) -> bytes:
    # a name holds no NUL, so no two pairs have the same text
    return hashlib.blake2b(f"{deployment}\0{member}".encode(), digest_size=8).digest()
