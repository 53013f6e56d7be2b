"""Logging in and out."""

from __future__ import annotations

from django.contrib.auth import logout
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from controlplane.accounts.forms import LoginForm


class Login(LoginView):
    """The login page. Waits and refusals come from `accounts.services.login`."""

    template_name = "login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def form_invalid(self, form: object) -> HttpResponse:
        """Answers a refused login with 403, so that tools see it too."""
        response = super().form_invalid(form)  # type: ignore[arg-type]
        response.status_code = 403
        return response


@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    """Ends the session."""
    logout(request)
    return redirect("login")
