"""Who may do what. Three roles in a row: viewer reads, operator also changes, administrator also manages accounts."""

from __future__ import annotations

from typing import Protocol

from controlplane.accounts.models import ApiToken, Role, User
from controlplane.domain.errors import RefusedError
from controlplane.journal.services.record import Actor

VIEWER = Role.VIEWER.value
OPERATOR = Role.OPERATOR.value
ADMINISTRATOR = Role.ADMINISTRATOR.value


class HasRole(Protocol):
    """A user or a token."""

    def has_role(self, role: str) -> bool:
        """Returns whether what `role` may do is allowed."""


def require(user: HasRole, role: str) -> None:
    """Refuses (`forbidden`) unless the user may do what `role` may do."""
    if not user.has_role(role):
        raise RefusedError("forbidden", f"This needs the role {role}.", kind="forbidden")


def actor_of(user: User, token: ApiToken | None = None) -> Actor:
    """Returns under which name the journal knows a person, or the token that acts for them."""
    if token is None:
        return Actor("user", user.username)
    return Actor("token", f"{user.username}/{token.name}"[:150])
