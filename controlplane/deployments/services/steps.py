"""Steps of a replica that the control plane itself makes; those that its node makes come with its reports."""

from __future__ import annotations

from django.utils import timezone

from controlplane.deployments.models import ReplicaTransition


def write(*, replica_id: str, from_state: str, to_state: str, code: str, message: str, hint: str = "") -> None:
    """Adds a step to a replica's history. Its number is negative, so that it never meets one of the node's."""
    lowest = ReplicaTransition.objects.filter(replica_id=replica_id, seq__lt=0).order_by("seq").first()
    ReplicaTransition.objects.create(
        replica_id=replica_id,
        seq=lowest.seq - 1 if lowest else -1,
        at=timezone.now(),
        from_state=from_state,
        to_state=to_state,
        code=code,
        message=message,
        hint=hint,
    )
