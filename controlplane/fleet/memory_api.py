"""The memory of accelerators in REST: who holds what."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import permissions, schema
from controlplane.api.serializers import StrictSerializer
from controlplane.api.views import ApiView
from controlplane.fleet import selectors


class HolderSerializer(serializers.Serializer[selectors.Holder]):
    """Who holds memory of an accelerator."""

    owner_kind = serializers.CharField()
    owner_id = serializers.CharField()
    reserved_bytes = serializers.IntegerField(allow_null=True, help_text="null = the whole accelerator.")
    releasing = serializers.BooleanField(help_text="It has ended; its memory is not seen to be back yet.")


class CardSharesSerializer(serializers.Serializer[selectors.CardShares]):
    """One accelerator: who holds what of it."""

    uuid = serializers.CharField(source="accelerator.uuid")
    index = serializers.IntegerField(source="accelerator.index")
    name = serializers.CharField(source="accelerator.name")
    holders = HolderSerializer(many=True)
    total_bytes = serializers.IntegerField(allow_null=True)
    reserved_bytes = serializers.IntegerField(allow_null=True)
    foreign_bytes = serializers.IntegerField(allow_null=True, help_text="Of processes that are not ours.")
    free_bytes = serializers.IntegerField(allow_null=True, help_text="Can still be reserved.")
    used_bytes = serializers.IntegerField(allow_null=True, help_text="As measured, whoever uses it.")


class NodeMemorySerializer(serializers.Serializer[object]):
    """The memory of a node's accelerators."""

    node = serializers.CharField()
    accelerators = CardSharesSerializer(many=True)


class NodeMemoryView(ApiView):
    """The memory of one node's accelerators."""

    roles = permissions.READ

    @schema.reads("get_node_memory", NodeMemorySerializer, tagged=False)
    def get(self, request: Request, name: str) -> Response:
        """Reads who holds how many bytes of each accelerator; reserved, foreign and free add up to its memory."""
        self.query(StrictSerializer)
        row = selectors.node(name)
        return Response(NodeMemorySerializer({"node": name, "accelerators": selectors.card_shares(row)}).data)
