"""Addresses of samples under /api/v1/."""

from __future__ import annotations

from django.urls import path

from controlplane.telemetry import api

urlpatterns = [
    path("telemetry/newest/", api.NewestView.as_view()),
    path("telemetry/history/", api.HistoryView.as_view()),
]
