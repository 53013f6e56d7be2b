"""Slowing down who guesses passwords: a wait that doubles with each failure, kept in the database.

Guarantees
    After `FREE_FAILURES` failures of one account from one address (and more for one address alone) each further
    attempt has to wait; the wait doubles up to `LONGEST_WAIT`. A success, or a day without attempts, forgives.
    While one must wait, the password is not even looked at, so a right guess can't be told from a wrong one.
    Unknown accounts are slowed down as known ones are. No count that is stored names an account or an address.
    Who logs in and out, and whose password was guessed wrongly, is in the journal; of failures one row an account and
    `TOLD_TOGETHER`, which counts up. A name that no account has may be somebody's password and is not written down.
Does not do
    Lock an account for everybody: that would let a stranger keep its owner out.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from controlplane.accounts.models import LoginBackoff, User
from controlplane.journal.models import Event
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor

FREE_FAILURES = 4
FREE_FAILURES_OF_AN_ADDRESS = 20
FIRST_WAIT = timedelta(seconds=2)
LONGEST_WAIT = timedelta(minutes=15)
FORGIVEN_AFTER = timedelta(days=1)
TOLD_TOGETHER = timedelta(minutes=10)
LOGIN = Actor("system", "login")


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
    _tell_failure(username if User.objects.filter(username=username).exists() else "", address, now)


def succeeded(*, username: str, address: str) -> None:
    """Forgives the failures of this account from this address; those of the address alone stay."""
    LoginBackoff.objects.filter(key=_key("account", username, address)).delete()


def logged_in(*, username: str, address: str) -> None:
    """Writes down that somebody has logged in."""
    _tell(Actor("user", username), username, "user.logged_in", "Logged in.", {"address": address})


def logged_out(*, username: str, address: str) -> None:
    """Writes down that somebody has ended their session."""
    _tell(Actor("user", username), username, "user.logged_out", "Logged out.", {"address": address})


def _tell_failure(username: str, address: str, now: datetime) -> None:
    told = Event.objects.select_for_update().filter(
        verb="user.login_failed", object_kind="user", object_id=username, at__gte=now - TOLD_TOGETHER
    )
    known = told.first()
    if known is not None:
        known.numbers = {"failures": known.numbers["failures"] + 1, "address": address}
        known.save(update_fields=["numbers"])
        return
    message = "Somebody gave a wrong password." if username else "Somebody gave a name that no user has."
    _tell(LOGIN, username, "user.login_failed", message, {"failures": 1, "address": address}, level="warning")


def _tell(
    actor: Actor, username: str, verb: str, message: str, numbers: dict[str, object], *, level: str = "info"
) -> None:
    record.event(
        actor=actor, verb=verb, object_kind="user", object_id=username, object_name=username or "?", message=message,
        numbers=numbers, level=level,
    )  # fmt: skip


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
