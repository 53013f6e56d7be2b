"""Addresses of usage and of the rules of traffic under /api/v1/."""

from __future__ import annotations

from django.urls import path

from controlplane.api import addresses  # noqa: F401  registers <name:…> and <number:…>
from controlplane.traffic.api import gateway, keys, ladders, quotas, shares, slos, tiers, usage

urlpatterns = [
    path("usage/", usage.UsageView.as_view()),
    path("tiers/", tiers.TiersView.as_view()),
    path("tiers/<name:tier>/", tiers.TierView.as_view()),
    path("deployments/<name:deployment>/tiers/<name:tier>/", tiers.DeploymentTierView.as_view()),
    path("tenants/<name:tenant>/keys/", keys.TenantKeysView.as_view()),
    path("tenants/<name:tenant>/keys/<number:id>/tier/", tiers.KeyTierView.as_view()),
    path("quotas/", quotas.QuotasView.as_view()),
    path("tenants/<name:tenant>/quotas/<name:quota>/", quotas.QuotaView.as_view()),
    path("shares/", shares.SharesView.as_view()),
    path("tenants/<name:tenant>/shares/<name:deployment>/", shares.ShareView.as_view()),
    path("ladders/", ladders.LaddersView.as_view()),
    path("deployments/<name:deployment>/ladder/", ladders.LadderView.as_view()),
    path("gateway/", gateway.GatewayView.as_view()),
    path("gateway/<name:deployment>/", gateway.GatewayDeploymentView.as_view()),
    path("slos/", slos.SlosView.as_view()),
    path("deployments/<name:deployment>/slo/", slos.SloView.as_view()),
    path("prices/", ladders.PricesView.as_view()),
    path("deployments/<name:deployment>/price/", ladders.PriceView.as_view()),
]
