"""Slowing down who guesses passwords: a wait that doubles with each failure, kept in the database.

Guarantees
    After `FREE_FAILURES` failures of one account from one address (and more for one address alone) each further
    attempt has to wait; the wait doubles up to `LONGEST_WAIT`. A success, or a day without attempts, forgives.
    While one must wait, the password is not even looked at, so a right guess can't be told from a wrong one.
    Unknown accounts are slowed down as known ones are. Nothing that is stored names an account or an address.
Does not do
    Lock an account for everybody: that would let a stranger keep its owner out.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from controlplane.accounts.models import LoginBackoff

FREE_FAILURES = 4
FREE_FAILURES_OF_AN_ADDRESS = 20
FIRST_WAIT = timedelta(seconds=2)
LONGEST_WAIT = timedelta(minutes=15)
FORGIVEN_AFTER = timedelta(days=1)


def wait(*, username: str, address: str, now: datetime) -> timedelta:
    """Returns how long this account has to wait from this address (zero = try now)."""
    rows = LoginBackoff.objects.filter(key__in=_keys(username, address), blocked_until__gt=now)
    return max((row.blocked_until - now for row in rows), default=timedelta(0))


@transaction.atomic
def failed(*, username: str, address: str, now: datetime) -> None:
    """Counts a failure. Also forgets those that are long ago."""
    LoginBackoff.objects.filter(last_at__lt=now - FORGIVEN_AFTER).delete()
    for key, free in _keys(username, address).items():
        LoginBackoff.objects.get_or_create(key=key, defaults={"blocked_until": now, "last_at": now})
        row = LoginBackoff.objects.select_for_update().get(key=key)
        row.failures += 1
        row.last_at = now
        row.blocked_until = now + wait_after(row.failures, free)
        row.save()


def succeeded(*, username: str, address: str) -> None:
    """Forgives the failures of this account from this address; those of the address alone stay."""
    LoginBackoff.objects.filter(key=_key("account", username, address)).delete()


def wait_after(failures: int, free: int) -> timedelta:
    """Returns the wait after so many failures, `free` of which cost nothing."""
    if failures <= free:
        return timedelta(0)
    doublings = min(failures - free - 1, 20)
    return min(LONGEST_WAIT, FIRST_WAIT * float(2**doublings))


def _keys(username: str, address: str) -> dict[str, int]:
    # key -> failures that cost nothing; sorted, so that two attempts lock rows in the same order
    keys = {
        _key("account", username, address): FREE_FAILURES,
        _key("address", "", address): FREE_FAILURES_OF_AN_ADDRESS,
    }
    return dict(sorted(keys.items()))


def _key(kind: str, username: str, address: str) -> str:
    text = "\0".join((kind, username.strip().lower(), address))
    return hmac.new(settings.SECRET_KEY.encode(), text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
