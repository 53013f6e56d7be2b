"""Bearer tokens of REST: made, revoked, recognised. The text of a token is known only to who made it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.accounts import names
from controlplane.accounts.models import ROLE_RANK, ApiToken, User
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.lib import ids

PREFIX = "hwt"
_SHOWN_CHARACTERS = 10
_USE_WRITTEN_EVERY = timedelta(minutes=1)


@transaction.atomic
def create(
    *, actor: Actor, username: str, name: str, role: str | None = None, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """Makes a token that acts as the user, limited to `role` (by default the user's); returns it and its secret."""
    names.check_label(name)
    user = User.objects.select_for_update().filter(username=username).first()
    if user is None:
        raise RefusedError("invalid", f"There is no user {username}.", fields={"user": f"There is no user {username}."})
    role = role or user.role
    _check(user, role, expires_at)
    secret = ids.new_secret(PREFIX)
    token = ApiToken.objects.create(
        user=user,
        name=name,
        prefix=secret[:_SHOWN_CHARACTERS],
        token_hash=ids.secret_hash(secret),
        role=role,
        expires_at=expires_at,
    )
    _event(actor, token, "token.created", f"Token {name} of {username} was made with the role {role}.")
    return token, secret


@transaction.atomic
def revoke(*, actor: Actor, token_id: int, expected_version: int | None = None) -> ApiToken:
    """Ends a token for ever; again changes nothing."""
    token = ApiToken.objects.select_for_update(of=("self",)).filter(pk=token_id).select_related("user").first()
    if token is None:
        raise RefusedError("no_such_token", f"There is no token {token_id}.", kind="not_found")
    versioned.check(
        object_kind="token", object_id=str(token_id), version=version(token), expected_version=expected_version
    )
    if token.revoked_at is not None:
        return token
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    _event(actor, token, "token.revoked", f"Token {token.name} of {token.user.username} was revoked.", "warning")
    return token


def version(token: ApiToken) -> int:
    """Returns the token's version: all that can happen to it is that it is revoked."""
    return 1 if token.revoked_at is None else 2


def recognise(secret: str, now: datetime) -> ApiToken | None:
    """Returns the token with its user when it may be used now, else None; remembers the use once a minute."""
    token = ApiToken.objects.select_related("user").filter(token_hash=ids.secret_hash(secret)).first()
    if token is None or token.revoked_at is not None or not token.user.is_active:
        return None
    if token.expires_at is not None and token.expires_at <= now:
        return None
    written_before = now - _USE_WRITTEN_EVERY
    if token.last_used_at is None or token.last_used_at < written_before:
        stale = Q(last_used_at=None) | Q(last_used_at__lt=written_before)
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    return token


def _check(user: User, role: str, expires_at: datetime | None) -> None:
    names.check_role(role)
    if ROLE_RANK[role] > ROLE_RANK[user.role]:
        message = f"{user.username} is {user.role}; a token can't be {role}."
        raise RefusedError("invalid", message, fields={"role": message})
    names.check_expiry(expires_at, timezone.now())


def _event(actor: Actor, token: ApiToken, verb: str, message: str, level: str = "info") -> None:
    record.event(
        actor=actor,
        verb=verb,
        object_kind="token",
        object_id=str(token.pk),
        object_name=token.name,
        message=message,
        level=level,
    )
