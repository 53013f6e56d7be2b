"""Engines in REST: what can be set, and the command line that would follow."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import permissions, schema
from controlplane.api.serializers import SettingValueField, StrictSerializer
from controlplane.api.views import ApiView
from controlplane.deployments.api import memory, shapes
from controlplane.deployments.services import deployments
from controlplane.deployments.wish import DeploymentWish
from engine_adapters import registry
from engine_adapters.base import EngineAdapter, SettingField

_KINDS = [(kind, kind) for kind in ("int", "float", "bool", "choice", "text")]


class SettingFieldSerializer(serializers.Serializer[SettingField]):
    """One setting of an engine."""

    name = serializers.CharField()
    kind = serializers.ChoiceField(_KINDS)
    label = serializers.CharField()  # type: ignore[assignment]
    help = serializers.CharField()
    default = SettingValueField()
    minimum = serializers.FloatField(allow_null=True)
    maximum = serializers.FloatField(allow_null=True)
    choices = serializers.ListField(child=serializers.CharField())
    unit = serializers.CharField()


class EngineSerializer(serializers.Serializer[EngineAdapter]):
    """An engine that Headworks knows."""

    name = serializers.CharField()
    managed = serializers.BooleanField(help_text="Headworks starts and stops it.")
    simulated = serializers.BooleanField()
    settings = SettingFieldSerializer(source="fields", many=True, help_text="What can be set.")


class EnginesSerializer(serializers.Serializer[object]):
    """All engines."""

    results = EngineSerializer(many=True)


class PreviewBody(shapes.DeploymentBody):
    """A deployment as in PUT; the engine is the one of the address."""

    engine = None  # type: ignore[assignment]


class PreviewSerializer(serializers.Serializer[object]):
    """The argument list that a replica would start with; port and folder stand as examples."""

    argv = serializers.ListField(child=serializers.CharField())
    ledgers = memory.PreviewedLedgerSerializer(many=True, help_text="On each make of accelerator in the pool.")


class EnginesView(ApiView):
    """All engines."""

    roles = permissions.READ

    @schema.reads("list_engines", EnginesSerializer, tagged=False)
    def get(self, request: Request) -> Response:
        """Lists the engines with the settings that a deployment may give."""
        self.query(StrictSerializer)
        adapters = [registry.get(name) for name in registry.names()]
        return Response(EnginesSerializer({"results": adapters}).data)


class EngineView(ApiView):
    """One engine."""

    roles = permissions.READ

    @schema.reads("get_engine", EngineSerializer, tagged=False)
    def get(self, request: Request, name: str) -> Response:
        """Reads an engine and its settings."""
        return Response(EngineSerializer(registry.get(name)).data)


class PreviewView(ApiView):
    """The command line of an engine."""

    roles = {"POST": "viewer"}  # changes nothing

    @schema.acts("preview_engine", PreviewSerializer, PreviewBody, conditional=False)
    def post(self, request: Request, name: str) -> Response:
        """Returns the argument list and the memory of a replica of such a deployment, with advice; changes nothing."""
        registry.get(name)
        wish = DeploymentWish(engine=name, **self.body(PreviewBody))
        found = {"argv": deployments.preview_command(wish), "ledgers": deployments.preview_ledgers(wish)}
        return Response(PreviewSerializer(found).data)
