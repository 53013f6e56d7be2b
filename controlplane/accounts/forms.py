"""The login form: says how long to wait instead of that the password is wrong."""

from __future__ import annotations

import math
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import ngettext

from controlplane.accounts.backends import address_of
from controlplane.accounts.services import login


class LoginForm(AuthenticationForm):
    """Django's login form with the back-off of `services.login`."""

    def clean(self) -> dict[str, Any]:
        """Refuses while the account has to wait from this address; else checks the password."""
        username = str(self.cleaned_data.get("username") or "")
        wait = login.wait(username=username, address=address_of(self.request), now=timezone.now())
        if wait:
            seconds = math.ceil(wait.total_seconds())
            message = ngettext(
                "Too many failed attempts. Try again in %(seconds)d second.",
                "Too many failed attempts. Try again in %(seconds)d seconds.",
                seconds,
            )
            raise ValidationError(message, code="wait", params={"seconds": seconds})
        return super().clean()
