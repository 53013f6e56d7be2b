"""Addresses of models under /api/v1/."""

from __future__ import annotations

from django.urls import path

from controlplane.api import addresses  # noqa: F401  registers <name:…>
from controlplane.catalog import api

urlpatterns = [
    path("models/", api.ModelsView.as_view()),
    path("models/<name:name>/", api.ModelView.as_view()),
    path("models/<name:model>/variants/", api.VariantsView.as_view()),
    path("models/<name:model>/variants/<name:name>/", api.VariantView.as_view()),
]
