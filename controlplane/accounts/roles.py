"""Who may do what. Three roles in a row: viewer reads, operator also changes, administrator also manages accounts."""

from __future__ import annotations

from typing import Protocol

from controlplane.accounts.models import ROLE_RANK, ApiToken, Role, User
from controlplane.domain.errors import RefusedError
from controlplane.journal.services.record import Actor

VIEWER = Role.VIEWER.value
OPERATOR = Role.OPERATOR.value
ADMINISTRATOR = Role.ADMINISTRATOR.value


class HasRole(Protocol):
    """A user or a token."""

    def has_role(self, role: str) -> bool:
        """Returns whether what `role` may do is allowed."""


class _Request(Protocol):
    @property
    def user(self) -> object: ...


def require(user: HasRole, role: str) -> None:
    """Refuses (`forbidden`) unless the user may do what `role` may do."""
    if not user.has_role(role):
        raise RefusedError("forbidden", f"This needs the role {role}.", kind="forbidden")


def actor_of(user: User, token: ApiToken | None = None) -> Actor:
    """Returns under which name the journal knows a person, or the token that acts for them."""
    if token is None:
        return Actor("user", user.username)
    return Actor("token", f"{user.username}/{token.name}"[:150])


def effective_role(request: _Request) -> str:
    """Returns the lesser one of the user's role and that of the token that was sent."""
    token = getattr(request, "auth", None)
    held = [request.user, token] if isinstance(token, ApiToken) else [request.user]
    return min((one.role for one in held if isinstance(one, User | ApiToken)), key=lambda role: ROLE_RANK[role])


def may(request: _Request, role: str) -> bool:
    """Returns whether who sent a request (that has been authenticated) may do what `role` may do."""
    return ROLE_RANK[effective_role(request)] >= ROLE_RANK[role]


def acting(request: _Request) -> Actor:
    """Returns who acts in a request of REST or of the console that has been authenticated."""
    assert isinstance(request.user, User), "ask only after a permission check"
    token = getattr(request, "auth", None)
    return actor_of(request.user, token if isinstance(token, ApiToken) else None)
