"""Who opens a telemetry socket, and whether the page that opens it is ours.

Guarantees
    A browser sends cookies to a socket from any page, so a session counts only together with an `Origin` that is this
    console itself (host and port) or listed in CSRF_TRUSTED_ORIGINS. Without `Origin` (programs) only a bearer token
    counts. Who was let in is asked again from time to time: a closed session or a revoked token ends the socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from channels.auth import get_user
from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.http.cookie import parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

from controlplane.accounts.models import ROLE_RANK, Role, User
from controlplane.accounts.services import tokens

_DEFAULT_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who was let in; `secret` and `session_key` serve to ask again."""

    name: str
    rank: int
    session_key: str = ""
    secret: str = ""

    def has_role(self, role: str) -> bool:
        """Returns whether they may do what `role` may do."""
        return self.rank >= ROLE_RANK[role]


@dataclass(frozen=True, slots=True)
class Refused:
    """Nobody we let in, and why."""

    reason: str  # origin | anonymous


async def identify(scope: Mapping[str, Any]) -> Identity | Refused:
    """Returns who opens a socket, from its headers."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    origin = headers.get(b"origin")
    if origin is not None and not is_own_origin(origin, headers.get(b"host", "")):
        return Refused("origin")
    scheme, _, secret = headers.get(b"authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return await _by_token(secret.strip()) or Refused("anonymous")
    if origin is None:
        return Refused("anonymous")
    key = parse_cookie(headers.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME)
    return (await _by_session(key) if key else None) or Refused("anonymous")


async def ask_again(identity: Identity) -> Identity | None:
    """Returns the same person as they are now, None when they may no longer be here."""
    if identity.secret:
        return await _by_token(identity.secret)
    return await _by_session(identity.session_key)


def is_own_origin(origin: str, host: str) -> bool:
    """Returns whether `origin` is the address that `host` (the Host header) names, or one that is trusted."""
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _ = split_domain_port(host)
    allowed = settings.ALLOWED_HOSTS or (["localhost", "127.0.0.1", "[::1]"] if settings.DEBUG else [])
    if not domain or not validate_host(domain, allowed):
        return False
    parts = urlsplit(origin)
    if parts.scheme not in _DEFAULT_PORTS or not parts.netloc:
        return False
    default = _DEFAULT_PORTS[parts.scheme]
    return _with_port(parts.netloc, default) == _with_port(host, default)


def _with_port(netloc: str, default: str) -> tuple[str, str]:
    domain, port = split_domain_port(netloc.lower())
    return domain, port or default


async def _by_token(secret: str) -> Identity | None:
    token = await database_sync_to_async(tokens.recognise)(secret, timezone.now())
    if token is None:
        return None
    rank = min(ROLE_RANK[token.role], ROLE_RANK[token.user.role])
    return Identity(f"{token.user.username}/{token.name}", rank, secret=secret)


async def _by_session(session_key: str) -> Identity | None:
    session = SessionStore(session_key)
    user = await get_user({"session": session})
    if not isinstance(user, User) or not user.has_role(Role.VIEWER):
        return None
    return Identity(user.username, ROLE_RANK[user.role], session_key=session_key)
