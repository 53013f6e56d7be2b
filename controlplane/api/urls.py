"""Everything under /api/."""

from __future__ import annotations

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from controlplane.api import slashes

urlpatterns = [
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("v1/", include("controlplane.deployments.urls")),
    path("v1/", include("controlplane.fleet.urls")),
    path("v1/", include("controlplane.catalog.urls")),
    path("v1/", include("controlplane.telemetry.urls")),
    path("v1/", include("controlplane.traffic.urls")),
    path("v1/", include("controlplane.accounts.urls")),
    path("v1/", include("controlplane.journal.urls")),
    path("<path:rest>", slashes.without_slash),
]
