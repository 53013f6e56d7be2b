"""Who sends a request: a REST token in `Authorization: Bearer …`."""

from __future__ import annotations

from django.utils import timezone
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from controlplane.accounts.models import ApiToken, User
from controlplane.accounts.services import keys, tokens

_LONGEST = 200


class BearerTokenAuthentication(BaseAuthentication):
    """Recognises tokens; the role of the request is the lesser one of the user's and the token's (RolePermission)."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """Returns the user and the token; None without a bearer token; raises AuthenticationFailed for a bad one."""
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        secret = secret.strip()
        if secret.startswith(f"{keys.PREFIX}-"):
            raise exceptions.AuthenticationFailed("This is a key of the gateway; REST needs a token.")
        token = tokens.recognise(secret, timezone.now()) if 0 < len(secret) <= _LONGEST else None
        if token is None:
            raise exceptions.AuthenticationFailed("This token is unknown, expired or revoked.")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """Returns what WWW-Authenticate says."""
        return 'Bearer realm="headworks"'
