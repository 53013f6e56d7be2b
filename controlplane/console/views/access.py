"""What the pages of tenants, keys, users and tokens have in common."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.accounts.models import Role
from controlplane.console import words
from controlplane.console.dialogs import Field, Values
from controlplane.console.guard import is_fragment
from controlplane.console.lists import Listing

_VALID = ("", "30", "90", "365")


def show(request: HttpRequest, tab: str, table: Listing, **more: Any) -> HttpResponse:
    """Returns the page of a tab, or its table alone."""
    template = f"access/{tab}_table.html" if is_fragment(request) else "access/page.html"
    return render(request, template, {"table": table, "tab": tab, "table_template": f"access/{tab}_table.html", **more})


def show_secret(request: HttpRequest, title: str, secret: str, back: str) -> HttpResponse:
    """Shows a secret this once."""
    template = "parts/secret.html" if is_fragment(request) else "secret_page.html"
    response = render(request, template, {"title": title, "secret": secret, "back": back})
    response["Cache-Control"] = "no-store"
    return response


def role_choices() -> tuple[tuple[str, str], ...]:
    """Returns the roles to choose from."""
    return tuple((role, words.of(role)) for role in Role.values)


def validity(values: Values) -> Field:
    """Returns the field that says how long a key or token is good."""
    labels = {"": _("No end"), "30": _("30 days"), "90": _("90 days"), "365": _("1 year")}
    choices = tuple((days, labels[days]) for days in _VALID)
    return Field("valid_days", _("Valid for"), "select", values.get("valid_days", ""), choices=choices)


def expiry(values: Values) -> datetime | None:
    """Returns until when it is good; None = for ever."""
    days = values.get("valid_days", "")
    return timezone.now() + timedelta(days=int(days)) if days in _VALID and days else None


def expiry_text(values: Values) -> str | None:
    """Returns `expiry` as REST takes it."""
    until = expiry(values)
    return until.replace(microsecond=0).isoformat() if until else None
