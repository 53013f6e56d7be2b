"""The memory of accelerators in REST: who holds what, and what is released by hand."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import StrictSerializer, Text
from controlplane.api.views import ApiView
from controlplane.fleet import selectors
from controlplane.fleet.services import reservations


class HolderSerializer(serializers.Serializer[selectors.Holder]):
    """Who holds memory of an accelerator."""

    owner_kind = serializers.CharField()
    owner_id = serializers.CharField()
    reserved_bytes = serializers.IntegerField(allow_null=True, help_text="null = the whole accelerator.")
    releasing = serializers.BooleanField(help_text="It has ended; its memory is not seen to be back yet.")
    not_back_since = serializers.DateTimeField(
        allow_null=True, help_text="When it was told that the memory did not come back in time; null = it was not."
    )
    not_back_bytes = serializers.IntegerField(
        allow_null=True, help_text="So much of it at most is not back, by the newest reading."
    )


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


class ReleaseBody(StrictSerializer):
    """Whose memory."""

    owner_id = Text(max_length=32, help_text="The replica that has ended.")


class ReleaseMemoryView(ApiView):
    """Releasing what did not come back."""

    roles = permissions.ACT

    @schema.acts("release_memory", CardSharesSerializer, ReleaseBody)
    def post(self, request: Request, name: str, uuid: str) -> Response:
        """Releases memory of an accelerator that is not back from a replica that has ended. `If-Match` takes the node's
        ETag."""
        row = reservations.give_up(
            actor=roles.acting(request),
            node=name,
            uuid=uuid,
            expected_version=self.expected_version(),
            **self.body(ReleaseBody),
        )
        return Response(CardSharesSerializer(selectors.shares_of(row)).data)

    def _version_now(self) -> int:
        return selectors.node(self.kwargs["name"]).version
