"""Addresses of deployments, replicas and engines under /api/v1/."""

from __future__ import annotations

from django.urls import path

from controlplane.api import addresses  # noqa: F401  registers <name:…>
from controlplane.deployments.api import deployments, engines, freeze, memory, nodes, planner, replicas, status

urlpatterns = [
    path("status/", status.StatusView.as_view()),
    path("deployments/", deployments.DeploymentsView.as_view()),
    path("deployments/<name:name>/", deployments.DeploymentView.as_view()),
    path("deployments/<name:name>/revisions/", deployments.RevisionsView.as_view()),
    path("deployments/<name:name>/progress/", deployments.ProgressView.as_view()),
    path("deployments/<name:name>/start/", deployments.StartView.as_view()),
    path("deployments/<name:name>/stop/", deployments.StopView.as_view()),
    path("deployments/<name:name>/drain/", deployments.DrainView.as_view()),
    path("deployments/<name:name>/scale/", deployments.ScaleView.as_view()),
    path("deployments/<name:name>/clone/", deployments.CloneView.as_view()),
    path("deployments/<name:name>/freeze/", deployments.FreezeView.as_view()),
    path("deployments/<name:name>/unfreeze/", deployments.UnfreezeView.as_view()),
    path("replicas/", replicas.ReplicasView.as_view()),
    path("replicas/<name:id>/", replicas.ReplicaView.as_view()),
    path("replicas/<name:id>/transitions/", replicas.TransitionsView.as_view()),
    path("replicas/<name:id>/log/", replicas.LogView.as_view()),
    path("replicas/<name:id>/drain/", replicas.DrainReplicaView.as_view()),
    path("replicas/<name:id>/restart/", replicas.RestartReplicaView.as_view()),
    path("replicas/<name:id>/ledger/", memory.ReplicaLedgerView.as_view()),
    path("replicas/<name:id>/candidates/", memory.CandidatesView.as_view()),
    path("ledgers/", memory.LedgersView.as_view()),
    path("freeze/", freeze.FreezeView.as_view()),
    path("nodes/<name:name>/label/", nodes.LabelNodeView.as_view()),
    path("nodes/<name:name>/forget/", nodes.ForgetNodeView.as_view()),
    path("engines/", engines.EnginesView.as_view()),
    path("engines/<name:name>/", engines.EngineView.as_view()),
    path("engines/<name:name>/preview/", engines.PreviewView.as_view()),
    path("planner/estimate/", planner.EstimateView.as_view()),
    path("planner/capacity/", planner.CapacityView.as_view()),
]
