"""Addresses of usage under /api/v1/."""

from __future__ import annotations

from django.urls import path

from controlplane.traffic import api

urlpatterns = [path("usage/", api.UsageView.as_view())]
