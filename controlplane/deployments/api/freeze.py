"""The switch for everything in REST."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import schema
from controlplane.api.serializers import StrictSerializer, Text, Truth
from controlplane.api.views import ApiView
from controlplane.deployments.models import Freeze
from controlplane.deployments.services import freeze


class FreezeSerializer(serializers.Serializer[Freeze]):
    """Whether automatic changes are stopped everywhere, beside the deployments that are frozen by themselves."""

    frozen = serializers.BooleanField()
    reason = serializers.CharField()
    changed_by = serializers.CharField()
    changed_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField(help_text="The number in the ETag; 0 while nobody has used the switch.")


class FreezeBody(StrictSerializer):
    """How the switch shall stand."""

    answer = FreezeSerializer

    frozen = Truth()
    reason = Text(default="", allow_blank=True, max_length=200)


class FreezeView(ApiView):
    """The switch."""

    roles = {"GET": "viewer", "PUT": "operator"}

    @schema.reads("get_freeze", FreezeSerializer)
    def get(self, request: Request) -> Response:
        """Reads whether automatic changes are stopped everywhere."""
        return self._answer(freeze.current())

    @schema.puts("put_freeze", FreezeBody, FreezeSerializer)
    def put(self, request: Request) -> Response:
        """Stops every automatic change, or allows them again. What runs goes on; engines that fail are still started
        again on their nodes, and what people ask for in numbers (stop, scale down) is still done."""
        wish, version = self.body(FreezeBody), self.expected_version()
        done = freeze.apply(actor=roles.acting(request), expected_version=version, **wish)
        return self._answer(done.row, 201 if done.created else 200, done.changed)

    def _answer(self, row: Freeze, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(FreezeSerializer(row).data, version=row.version, status=status, changed=changed)
