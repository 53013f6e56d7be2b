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
from controlplane.fleet import selectors as fleet
from controlplane.fleet.models import Node
from controlplane.lib import sample_store, valkey


class ProblemSerializer(serializers.Serializer[Any]):
    """Something that a person has to look at."""

    node = serializers.CharField(allow_blank=True, help_text="Empty: it is about the control plane itself.")
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)


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
    problems = ProblemSerializer(many=True, help_text="Nobody leads, nodes that are lost, late or wrong; worst first.")


class StatusView(ApiView):
    """The pulse of the whole."""

    roles = permissions.READ

    @schema.reads("get_status", StatusSerializer, tagged=False)
    def get(self, request: Request) -> Response:
        """Reads the pulse: replicas ready and wanted, tokens per second, requests that wait."""
        self.query(StrictSerializer)
        return Response(StatusSerializer(pulse()).data)


def pulse() -> dict[str, Any]:
    """Returns the numbers of StatusSerializer, counted by the database."""
    replicas, nodes = selectors.replica_totals(), fleet.node_states(Node.objects.all())
    return {
        "replicas_ready": replicas.ready,
        "replicas_wanted": replicas.wanted,
        "deployments": {**dict.fromkeys(selectors.STATUSES, 0), **selectors.status_counts(selectors.deployments())},
        "nodes": nodes["all"],
        "nodes_lost": nodes["lost"],
        **_live(("tokens_per_s", "requests_per_s", "running", "waiting")),
        "problems": _problems(),
    }


def _problems() -> list[fleet.Problem]:
    state = selectors.control_state()
    own = [fleet.Problem("", "controller", state.problem, state.hint)] if state.problem else []
    return own + fleet.problems()


def _live(fields: tuple[str, ...]) -> dict[str, float | None]:
    """Returns what is reported now; nothing while Valkey is away, for the rest is still worth an answer."""
    try:
        with valkey.connect() as client:
            return sample_store.sums(client, "deployment", fields)
    except valkey.ERRORS:
        return dict.fromkeys(fields)
