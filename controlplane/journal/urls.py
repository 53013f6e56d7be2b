"""Addresses of the journal under /api/v1/."""

from __future__ import annotations

from django.urls import path

from controlplane.journal import api

urlpatterns = [
    path("events/", api.EventsView.as_view()),
    path("decisions/", api.DecisionsView.as_view()),
]
