"""What is done to a node together with the replicas on it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import Labels, StrictSerializer, Truth
from controlplane.api.views import ApiView
from controlplane.deployments import selectors
from controlplane.deployments.services import lost_nodes
from controlplane.fleet import selectors as fleet
from controlplane.fleet.api import NodeSerializer
from controlplane.fleet.services import nodes


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


class LabelsBody(StrictSerializer):
    """All labels that a node shall carry."""

    labels = Labels()
    preview = Truth(default=False, help_text="Changes nothing, and tells to whom it would matter.")


class AffectedSerializer(serializers.Serializer[selectors.Relabelled]):
    """To whom other labels of a node matter, among the deployments that ask for some. What runs is never moved."""

    losing = serializers.ListField(child=serializers.CharField(), help_text="Nothing new of these is placed there.")
    gaining = serializers.ListField(child=serializers.CharField(), help_text="These may be placed there from then on.")
    running = serializers.IntegerField(help_text="Replicas of the losing ones there; they go on.")


class LabelledNodeSerializer(NodeSerializer):
    """A node, and to whom its labels matter."""

    affected = AffectedSerializer()


class LabelNodeView(ApiView):
    """Labelling."""

    roles = permissions.ACT

    @schema.acts("label_node", LabelledNodeSerializer, LabelsBody)
    def post(self, request: Request, name: str) -> Response:
        """Gives a node exactly these labels; what runs there goes on. Names the deployments that lose the node."""
        wished = self.body(LabelsBody)
        labels = wished["labels"]
        nodes.check_labels(labels)
        version = self.expected_version()
        affected = selectors.relabelled(fleet.node(name), labels)
        if not wished["preview"]:
            nodes.label(actor=roles.acting(request), name=name, labels=labels, expected_version=version)
        row = fleet.node(name)
        told = NodeSerializer(row).data | {"affected": AffectedSerializer(affected).data}
        return self.row(told, version=row.version)

    def _version_now(self) -> int:
        return fleet.node(self.kwargs["name"]).version
