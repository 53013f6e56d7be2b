"""What names, roles and times may look like, checked once for every way in."""

from __future__ import annotations

import re
from datetime import datetime

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from controlplane.accounts.models import Role
from controlplane.domain import names
from controlplane.domain.errors import RefusedError

_TENANT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.@+_-]{0,149}")


def check_tenant(name: str) -> None:
    """Refuses a tenant name that could not be an address."""
    if not _TENANT.fullmatch(name):
        raise _refused("name", "Use lower-case letters, digits and hyphens, at most 63.")
    _check_not_reserved("name", name)


def check_username(username: str) -> None:
    """Refuses a username that could not be an address."""
    if not _USERNAME.fullmatch(username):
        raise _refused("username", "Use letters, digits and . @ + _ -, at most 150, starting with a letter or digit.")
    _check_not_reserved("username", username)


def check_role(role: str) -> None:
    """Refuses a role that does not exist."""
    if role not in Role.values:
        raise _refused("role", f"Use one of {', '.join(Role.values)}.")


def check_email(email: str) -> None:
    """Refuses what is neither empty nor an e-mail address."""
    try:
        if email:
            validate_email(email)
    except ValidationError:
        raise _refused("email", "Give an e-mail address, or leave it empty.") from None


def check_label(name: str) -> None:
    """Refuses an empty or overlong name of a token or key."""
    if not name.strip() or len(name) > 100:
        raise _refused("name", "Give it a name of at most 100 characters.")


def check_expiry(expires_at: datetime | None, now: datetime) -> None:
    """Refuses an end of validity that has passed already."""
    if expires_at is not None and expires_at <= now:
        raise _refused("expires_at", "Give a time that is still to come.")


def _check_not_reserved(field: str, name: str) -> None:
    if text := names.reserved(name):
        raise _refused(field, text)


def _refused(field: str, message: str) -> RefusedError:
    return RefusedError("invalid", message, fields={field: message})
