"""The pulse of the whole in REST."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import permissions, schema
from controlplane.api.serializers import StrictSerializer
from controlplane.api.views import ApiView
from controlplane.deployments import selectors
from controlplane.deployments.models import DesiredState
from controlplane.fleet import selectors as fleet
from controlplane.lib import sample_store, valkey


class StatusSerializer(serializers.Serializer[Any]):
    """Is all well, in a few numbers. null = nobody reports it."""

    replicas_ready = serializers.IntegerField()
    replicas_wanted = serializers.IntegerField(help_text="Of deployments that shall run.")
    deployments = serializers.DictField(child=serializers.IntegerField(), help_text="Status -> how many.")
    nodes = serializers.IntegerField()
    nodes_lost = serializers.IntegerField()
    tokens_per_s = serializers.FloatField(allow_null=True)
    requests_per_s = serializers.FloatField(allow_null=True)
    running = serializers.FloatField(allow_null=True)
    waiting = serializers.FloatField(allow_null=True)


class StatusView(ApiView):
    """The pulse of the whole."""

    roles = permissions.READ

    @schema.reads("get_status", StatusSerializer, tagged=False)
    def get(self, request: Request) -> Response:
        """Reads the pulse: replicas ready and wanted, tokens per second, requests that wait."""
        self.query(StrictSerializer)
        return Response(StatusSerializer(pulse()).data)


def pulse() -> dict[str, Any]:
    """Returns the numbers of StatusSerializer."""
    rows = list(selectors.deployments())
    by_status = dict.fromkeys(selectors.STATUSES, 0)
    for row in rows:
        by_status[selectors.status(row)] += 1
    wanted = [row for row in rows if row.desired_state == DesiredState.RUNNING and row.deleted_at is None]
    samples = _newest([f"deployment:{row.name}" for row in rows])
    summed = {
        field: _sum([sample.get(field) for sample in samples])
        for field in ("tokens_per_s", "requests_per_s", "running", "waiting")
    }
    return {
        "replicas_ready": sum(getattr(row, "replicas_ready", 0) for row in rows),
        "replicas_wanted": sum(row.replicas_wanted for row in wanted),
        "deployments": by_status,
        "nodes": fleet.nodes().count(),
        "nodes_lost": fleet.nodes(lost=True).count(),
        **summed,
    }


def _newest(subjects: list[str]) -> list[sample_store.Sample]:
    """Returns the samples there are; none while Valkey is away, for the rest is still worth an answer."""
    try:
        with valkey.connect() as client:
            return list(sample_store.newest(client, subjects).values())
    except valkey.ERRORS:
        return []


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
