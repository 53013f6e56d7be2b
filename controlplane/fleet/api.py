"""Nodes and accelerators in REST."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import Facts, Labels, PageQuery, Real, StrictSerializer, Text, Words
from controlplane.api.views import ApiView, without_page
from controlplane.fleet import selectors
from controlplane.fleet.models import Accelerator, Node
from controlplane.fleet.services import nodes


class NodeSerializer(serializers.Serializer[Node]):
    """A machine with a node worker."""

    name = serializers.CharField()
    pool = serializers.CharField(source="pool.name")
    address = serializers.CharField()
    simulated = serializers.BooleanField()
    cordoned = serializers.BooleanField(help_text="Nothing new is placed here.")
    cordon_reason = serializers.CharField()
    draining = serializers.BooleanField(help_text="Its replicas are being moved away.")
    lost = serializers.BooleanField(help_text="It does not report.")
    last_report_at = serializers.DateTimeField(allow_null=True)
    cpu_count = serializers.IntegerField(allow_null=True)
    memory_total_bytes = serializers.IntegerField(allow_null=True)
    memory_available_bytes = serializers.IntegerField(allow_null=True)
    engines = Facts(help_text="Engine -> version.")
    labels = Labels(help_text="Deployments may ask for some.")
    card_price_per_hour = serializers.FloatField(
        allow_null=True, help_text="Of one accelerator; null = a typical rent is taken."
    )
    accelerators_total = serializers.IntegerField()
    accelerators_taken = serializers.IntegerField()
    files_looked_at = serializers.DateTimeField(
        allow_null=True, help_text="When it looked which models' files it has; null = it does not."
    )
    desired_version = serializers.IntegerField(help_text="Of the newest wish for it.")
    carried_out_version = serializers.IntegerField(help_text="Of the wish that it has carried out.")
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField(help_text="The number in the ETag.")


class NodeQuery(PageQuery):
    """Filters of nodes."""

    pool = serializers.CharField(required=False, max_length=63)
    lost = serializers.BooleanField(required=False)
    cordoned = serializers.BooleanField(required=False)
    simulated = serializers.BooleanField(required=False)
    search = serializers.CharField(required=False, max_length=100)


class ReasonBody(StrictSerializer):
    """Why it is done."""

    reason = Text(default="", allow_blank=True, max_length=200)


class CardPriceBody(StrictSerializer):
    """What one accelerator costs."""

    card_price_per_hour = Real(
        allow_null=True, help_text="Of one accelerator, in any one currency; null = a typical rent is taken."
    )


class PoolChoiceBody(StrictSerializer):
    """Where to."""

    pool = Text(max_length=63)


class AcceleratorSerializer(serializers.Serializer[Accelerator]):
    """A card, or a group of CPU cores."""

    uuid = serializers.CharField()
    node = serializers.CharField(source="node.name")
    index = serializers.IntegerField()
    kind = serializers.ChoiceField(Accelerator.Kind.choices)
    name = serializers.CharField()
    address = serializers.CharField(help_text="What an engine is told: a CUDA uuid, or a list of cores.")
    memory_total_bytes = serializers.IntegerField(allow_null=True)
    cordoned = serializers.BooleanField()
    present = serializers.BooleanField(help_text="In the node's newest report.")
    held_by = serializers.SerializerMethodField(help_text="The replica that has it.")
    observed = Facts(help_text="Memory, utilization, temperature, power, MIG and processes that are not ours.")

    def get_held_by(self, row: Accelerator) -> str | None:
        """Returns the id of the replica that has it, the first of several."""
        return next((held.owner_id for held in row.reservations.all()), None)


class AcceleratorQuery(PageQuery):
    """Filters of accelerators."""

    kind = Words(Accelerator.Kind.choices, required=False)
    free = serializers.BooleanField(required=False, help_text="Nobody has it.")
    include_gone = serializers.BooleanField(default=False, help_text="Also those that the node reports no more.")


class NodesView(ApiView):
    """All nodes."""

    roles = permissions.READ

    @schema.lists("list_nodes", NodeSerializer, NodeQuery)
    def get(self, request: Request) -> Response:
        """Lists nodes by name."""
        query = self.query(NodeQuery)
        return self.page(selectors.nodes(**without_page(query)), NodeSerializer, order=("name",), query=query)


class NodeView(ApiView):
    """One node."""

    roles = permissions.READ

    @schema.reads("get_node", NodeSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Reads a node."""
        return _node(self, name)


class NodeActionView(ApiView):
    """Something that is done to a node; answers the node."""

    roles = permissions.ACT

    def act(self, service: Any, shape: type[StrictSerializer], name: str) -> Response:
        """Calls a service with the fields of the body."""
        fields = self.body(shape)
        service(actor=roles.acting(self.request), name=name, expected_version=self.expected_version(), **fields)
        return _node(self, name)

    def _version_now(self) -> int:
        return selectors.node(self.kwargs["name"]).version


class CordonView(NodeActionView):
    """Cordoning."""

    @schema.acts("cordon_node", NodeSerializer, ReasonBody)
    def post(self, request: Request, name: str) -> Response:
        """Keeps new replicas away from a node; what runs on it goes on."""
        return self.act(nodes.cordon, ReasonBody, name)


class UncordonView(NodeActionView):
    """Uncordoning."""

    @schema.acts("uncordon_node", NodeSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Lets replicas be placed on a node again, and ends a drain."""
        return self.act(nodes.uncordon, StrictSerializer, name)


class DrainNodeView(NodeActionView):
    """Draining."""

    @schema.acts("drain_node", NodeSerializer, ReasonBody)
    def post(self, request: Request, name: str) -> Response:
        """Empties a node: nothing new, and its replicas are moved."""
        return self.act(nodes.drain, ReasonBody, name)


class MoveNodeView(NodeActionView):
    """Moving."""

    @schema.acts("move_node", NodeSerializer, PoolChoiceBody)
    def post(self, request: Request, name: str) -> Response:
        """Puts a node into another pool."""
        return self.act(nodes.move, PoolChoiceBody, name)


class PriceNodeView(NodeActionView):
    """Pricing."""

    @schema.acts("price_node", NodeSerializer, CardPriceBody)
    def post(self, request: Request, name: str) -> Response:
        """Says what one accelerator of a node costs an hour; placement and planner count with it."""
        return self.act(nodes.price, CardPriceBody, name)


class AcceleratorsView(ApiView):
    """The accelerators of one node."""

    roles = permissions.READ

    @schema.lists("list_accelerators", AcceleratorSerializer, AcceleratorQuery)
    def get(self, request: Request, name: str) -> Response:
        """Lists the accelerators of a node."""
        query = self.query(AcceleratorQuery)
        rows = selectors.accelerators(node=selectors.node(name).name, **without_page(query))
        return self.page(rows, AcceleratorSerializer, order=("index", "id"), query=query)


class CordonAcceleratorView(ApiView):
    """Cordoning one accelerator."""

    roles = permissions.ACT
    cordoned = True

    @schema.acts("cordon_accelerator", AcceleratorSerializer)
    def post(self, request: Request, name: str, uuid: str) -> Response:
        """Keeps new replicas away from one accelerator; what runs on it goes on. `If-Match` takes the node's ETag."""
        self.nothing()
        row = nodes.cordon_accelerator(
            actor=roles.acting(request),
            node=name,
            uuid=uuid,
            cordoned=self.cordoned,
            expected_version=self.expected_version(),
        )
        return Response(AcceleratorSerializer(row).data)

    def _version_now(self) -> int:
        return selectors.node(self.kwargs["name"]).version


class UncordonAcceleratorView(CordonAcceleratorView):
    """Uncordoning one accelerator."""

    cordoned = False

    @schema.acts("uncordon_accelerator", AcceleratorSerializer)
    def post(self, request: Request, name: str, uuid: str) -> Response:
        """Lets replicas be placed on one accelerator again. `If-Match` takes the node's ETag."""
        return super().post(request, name, uuid)


def _node(view: ApiView, name: str) -> Response:
    row = selectors.node(name)
    return view.row(NodeSerializer(row).data, version=row.version)
