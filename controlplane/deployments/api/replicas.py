"""Replicas in REST."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import PageQuery, StrictSerializer
from controlplane.api.views import ApiView, without_page
from controlplane.deployments import selectors
from controlplane.deployments.api import shapes
from controlplane.deployments.models import Replica
from controlplane.deployments.services import replicas
from controlplane.lib import engine_log, valkey


class LogQuery(StrictSerializer):
    """How much of a log."""

    lines = serializers.IntegerField(default=200, min_value=1, max_value=engine_log.KEPT_LINES)


class LogLineSerializer(serializers.Serializer[engine_log.LogLine]):
    """One line of an engine's log."""

    n = serializers.IntegerField(allow_null=True, help_text="Grows by one a line; null for lines kept at a failure.")
    line = serializers.CharField()


class LogSerializer(serializers.Serializer[object]):
    """The end of an engine's log."""

    replica = serializers.CharField()
    path = serializers.CharField(help_text="Where the whole log lies on the node.")
    source = serializers.ChoiceField([("live", "live"), ("kept", "kept")])  # type: ignore[assignment]
    lines = LogLineSerializer(many=True)


class ReplicasView(ApiView):
    """All replicas."""

    roles = permissions.READ

    @schema.lists("list_replicas", shapes.ReplicaSerializer, shapes.ReplicaQuery)
    def get(self, request: Request) -> Response:
        """Lists replicas by deployment and age; those that ended only when asked for."""
        query = self.query(shapes.ReplicaQuery)
        rows = selectors.replicas(**without_page(query))
        return self.page(rows, shapes.ReplicaSerializer, order=("deployment__name", "created_at", "id"), query=query)


class ReplicaView(ApiView):
    """One replica."""

    roles = permissions.READ

    @schema.reads("get_replica", shapes.ReplicaSerializer)
    def get(self, request: Request, id: str) -> Response:
        """Reads a replica, living or ended."""
        return _answer(self, selectors.replica(id))


class TransitionsView(ApiView):
    """The history of one replica."""

    roles = permissions.READ

    @schema.lists("list_transitions", shapes.TransitionSerializer, PageQuery)
    def get(self, request: Request, id: str) -> Response:
        """Lists the states that a replica went through, oldest first, with reasons and last log lines."""
        query = self.query(PageQuery)
        rows = selectors.transitions(selectors.replica(id))
        return self.page(rows, shapes.TransitionSerializer, order=("at", "id"), query=query)


class LogView(ApiView):
    """The end of one replica's log."""

    roles = permissions.READ_LOGS

    @schema.reads("get_replica_log", LogSerializer, LogQuery, tagged=False)
    def get(self, request: Request, id: str) -> Response:
        """Reads the newest lines of an engine's log, or those kept when it ended."""
        lines = self.query(LogQuery)["lines"]
        replica = selectors.replica(id)
        live = _live_lines(id, lines)
        kept = [{"n": None, "line": line} for line in replica.log_tail[-lines:]]
        shown = {"replica": id, "path": replica.log_path, "source": "live" if live else "kept", "lines": live or kept}
        return Response(LogSerializer(shown).data)


class ReplicaActionView(ApiView):
    """Something that is done to a replica; answers the replica."""

    roles = permissions.ACT


class DrainReplicaView(ReplicaActionView):
    """Draining."""

    @schema.acts("drain_replica", shapes.ReplicaSerializer, shapes.DrainBody, conditional=False)
    def post(self, request: Request, id: str) -> Response:
        """Takes a replica out; it ends when its requests have, and the deployment makes another one if it wants one."""
        limit_s = self.body(shapes.DrainBody)["drain_timeout_s"]
        replicas.drain(actor=roles.acting(request), replica_id=id, drain_timeout_s=limit_s)
        return _answer(self, selectors.replica(id))


class RestartReplicaView(ReplicaActionView):
    """Restarting."""

    @schema.acts("restart_replica", shapes.ReplicaSerializer, conditional=False)
    def post(self, request: Request, id: str) -> Response:
        """Ends a replica now, without waiting for its requests; the deployment makes another one if it wants one."""
        self.nothing()
        replicas.restart(actor=roles.acting(request), replica_id=id)
        return _answer(self, selectors.replica(id))


def _live_lines(replica_id: str, lines: int) -> list[engine_log.LogLine]:
    try:
        with valkey.connect() as client:
            return engine_log.tail(client, replica_id, lines)
    except valkey.ERRORS:  # what was kept is better than nothing
        return []


def _answer(view: ApiView, replica: Replica) -> Response:
    return view.row(shapes.ReplicaSerializer(replica).data, version=max(1, replica.observed_seq))
