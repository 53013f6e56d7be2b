"""Addresses of people, tokens, tenants and keys under /api/v1/."""

from __future__ import annotations

from django.urls import path

from controlplane.accounts.api import people, tenants
from controlplane.api import addresses  # noqa: F401  registers <name:…> and <number:…>

urlpatterns = [
    path("me/", people.MeView.as_view()),
    path("me/password/", people.MyPasswordView.as_view()),
    path("users/", people.UsersView.as_view()),
    path("users/<name:username>/", people.UserView.as_view()),
    path("tokens/", people.TokensView.as_view()),
    path("tokens/<number:id>/", people.TokenView.as_view()),
    path("tenants/", tenants.TenantsView.as_view()),
    path("tenants/<name:name>/", tenants.TenantView.as_view()),
    path("api-keys/", tenants.AllKeysView.as_view()),
    path("tenants/<name:tenant>/keys/<number:id>/", tenants.KeyView.as_view()),
]
