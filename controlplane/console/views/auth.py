"""Logging in and out."""

from __future__ import annotations

from django.contrib.auth import logout
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from controlplane.accounts.backends import address_of
from controlplane.accounts.forms import LoginForm
from controlplane.accounts.services import login


class Login(LoginView):
    """The login page. Waits and refusals come from `accounts.services.login`."""

    http_method_names = ["get", "head", "post"]
    template_name = "login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Begins the session and writes down who came."""
        response = super().form_valid(form)
        login.logged_in(username=form.get_user().get_username(), address=address_of(self.request))
        return response

    def form_invalid(self, form: object) -> HttpResponse:
        """Answers a refused login with 403, so that tools see it too."""
        response = super().form_invalid(form)  # type: ignore[arg-type]
        response.status_code = 403
        return response


@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    """Ends the session."""
    if request.user.is_authenticated:
        login.logged_out(username=request.user.get_username(), address=address_of(request))
    logout(request)
    return redirect("login")
