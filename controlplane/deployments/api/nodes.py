"""What is done to a node together with the replicas on it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.views import ApiView
from controlplane.deployments.services import lost_nodes
from controlplane.fleet import selectors as fleet


class ForgottenSerializer(serializers.Serializer[Any]):
    """What went from the records with a node."""

    node = serializers.CharField()
    replicas = serializers.IntegerField(help_text="How many had not ended; their deployments make others elsewhere.")


class ForgetNodeView(ApiView):
    """Forgetting."""

    roles = permissions.ACT

    @schema.acts("forget_node", ForgottenSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Removes a node that is lost for good, with its replicas; 409 while it reports."""
        self.nothing()
        version = self.expected_version()
        count = lost_nodes.forget(actor=roles.acting(request), name=name, expected_version=version)
        return Response(ForgottenSerializer({"node": name, "replicas": count}).data)

    def _version_now(self) -> int:
        return fleet.node(self.kwargs["name"]).version
