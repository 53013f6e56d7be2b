"""Browsers without a browser: logged-in test clients."""

from __future__ import annotations

from django.test import Client

from controlplane.accounts.models import User
from tests.console.making import make_user


def make_client(role: str = "administrator", user: User | None = None) -> Client:
    client = Client()
    client.force_login(user or make_user(f"test-{role}", role))
    return client


HX = {"HX-Request": "true"}
