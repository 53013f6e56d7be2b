"""Checking a password, slowed down for who guesses. Every way to log in goes through this backend."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils import timezone

from controlplane.accounts.models import User
from controlplane.accounts.services import login


class PasswordBackend(ModelBackend):
    """Django's check of username and password, with `services.login` before and after it."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        """Returns the user, or None for wrong credentials; while one must wait, stops without looking at them."""
        if username is None or password is None or "\0" in username:
            return None
        address = address_of(request)
        if login.wait(username=username, address=address, now=timezone.now()):
            raise PermissionDenied
        user = super().authenticate(request, username=username, password=password)
        if user is None:
            login.failed(username=username, address=address, now=timezone.now())
            return None
        login.succeeded(username=username, address=address)
        assert isinstance(user, User)
        return user


def address_of(request: HttpRequest | None) -> str:
    """Returns the address that a login comes from; behind a trusted proxy uvicorn has put the client's there."""
    return "" if request is None else str(request.META.get("REMOTE_ADDR", ""))
