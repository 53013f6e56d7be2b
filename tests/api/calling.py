"""Clients of REST for the tests: one for each role, and how to read an answer."""

from __future__ import annotations

from typing import Any

from rest_framework.test import APIClient

from controlplane.accounts.models import User
from controlplane.accounts.services import tokens
from controlplane.journal.services.record import SYSTEM


def make_user(role: str = "viewer", username: str | None = None, password: str = "correct horse 7") -> User:
    return User.objects.create_user(username=username or f"{role}-1", password=password, role=role)


def make_secret(user_role: str = "viewer", **changes: Any) -> str:
    user = User.objects.filter(username=f"{user_role}-1").first() or make_user(user_role)
    return tokens.create(actor=SYSTEM, username=user.username, name="test", **changes)[1]


def make_client(role: str | None = "operator") -> APIClient:
    """Returns a client with a token of a user of this role, or without any (None)."""
    client = APIClient()
    if role is not None:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_secret(role)}")
    return client


def error(response: Any) -> dict[str, Any]:
    """Returns the error of an answer after checking its shape."""
    body = response.json()
    assert set(body) == {"error"}, body
    assert set(body["error"]) == {"code", "message", "details"}, body
    assert isinstance(body["error"]["details"], dict)
    assert "Traceback" not in response.content.decode()
    found: dict[str, Any] = body["error"]
    return found
