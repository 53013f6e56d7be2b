"""Addresses of nodes and pools under /api/v1/."""

from __future__ import annotations

from django.urls import path

from controlplane.api import addresses  # noqa: F401  registers <name:…>
from controlplane.fleet import api, memory_api, model_files_api, pools_api

urlpatterns = [
    path("nodes/", api.NodesView.as_view()),
    path("nodes/<name:name>/", api.NodeView.as_view()),
    path("nodes/<name:name>/cordon/", api.CordonView.as_view()),
    path("nodes/<name:name>/uncordon/", api.UncordonView.as_view()),
    path("nodes/<name:name>/drain/", api.DrainNodeView.as_view()),
    path("nodes/<name:name>/move/", api.MoveNodeView.as_view()),
    path("nodes/<name:name>/price/", api.PriceNodeView.as_view()),
    path("nodes/<name:name>/memory/", memory_api.NodeMemoryView.as_view()),
    path("nodes/<name:name>/model-files/", model_files_api.ModelFilesView.as_view()),
    path("nodes/<name:name>/accelerators/", api.AcceleratorsView.as_view()),
    path("nodes/<name:name>/accelerators/<name:uuid>/cordon/", api.CordonAcceleratorView.as_view()),
    path("nodes/<name:name>/accelerators/<name:uuid>/uncordon/", api.UncordonAcceleratorView.as_view()),
    path("nodes/<name:name>/accelerators/<name:uuid>/release/", memory_api.ReleaseMemoryView.as_view()),
    path("pools/", pools_api.PoolsView.as_view()),
    path("pools/<name:name>/", pools_api.PoolView.as_view()),
]
