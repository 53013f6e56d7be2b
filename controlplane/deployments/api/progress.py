"""How far a deployment is on the way to what it was asked to be."""

from __future__ import annotations

from typing import Any

from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, DesiredState


def progress_of(deployment: Deployment) -> dict[str, Any]:
    """Returns the numbers and the replicas behind a deployment's status; `deployment` comes from the selectors."""
    replicas = list(selectors.replicas(deployment=deployment.name))
    is_running = deployment.desired_state == DesiredState.RUNNING and deployment.deleted_at is None
    status = selectors.status(deployment)
    ready = sum(replica.state == "ready" and replica.goal == "run" for replica in replicas)
    return {
        "status": status,
        "done": status == ("ready" if is_running and deployment.replicas_wanted else "stopped"),
        "replicas_wanted": deployment.replicas_wanted if is_running else 0,
        "replicas_ready": ready,
        "replicas_live": len(replicas),
        "in_flight": sum(replica.in_flight or 0 for replica in replicas),
        "replicas": replicas,
    }
