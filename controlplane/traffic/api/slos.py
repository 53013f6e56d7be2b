"""How fast deployments are meant to be, in REST."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import PageQuery, Real, StrictSerializer
from controlplane.api.views import ApiView
from controlplane.traffic import rule_selectors
from controlplane.traffic.api.fields import OPERATE, version_field
from controlplane.traffic.models import Slo
from controlplane.traffic.services import slos


class SloSerializer(serializers.Serializer[Slo]):
    """How long the first token (TTFT) and each further one (TPOT) may take; null = nothing is promised."""

    deployment = serializers.CharField(source="deployment.name")
    ttft_s = serializers.FloatField(allow_null=True)
    tpot_s = serializers.FloatField(allow_null=True)
    version = version_field()


class SloBody(StrictSerializer):
    """How fast it shall be."""

    answer = SloSerializer

    ttft_s = Real(allow_null=True, default=None)
    tpot_s = Real(allow_null=True, default=None)


class SlosView(ApiView):
    """All objectives."""

    roles = permissions.READ

    @schema.lists("list_slos", SloSerializer, PageQuery)
    def get(self, request: Request) -> Response:
        """Lists how fast deployments are meant to be, oldest first."""
        return self.page(rule_selectors.slos(), SloSerializer, order=("id",), query=self.query(PageQuery))


class SloView(ApiView):
    """The objective of a deployment."""

    roles = OPERATE

    @schema.reads("get_slo", SloSerializer)
    def get(self, request: Request, deployment: str) -> Response:
        """Reads an objective."""
        return self._answer(rule_selectors.slo(deployment))

    @schema.puts("put_slo", SloBody, SloSerializer)
    def put(self, request: Request, deployment: str) -> Response:
        """Says how fast a deployment is meant to be; the same again changes nothing."""
        wish, version = self.body(SloBody), self.expected_version()
        done = slos.apply(actor=roles.acting(request), deployment=deployment, **wish, expected_version=version)
        return self._answer(rule_selectors.slo(deployment), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_slo")
    def delete(self, request: Request, deployment: str) -> Response:
        """Removes an objective: nothing is promised."""
        slos.delete(actor=roles.acting(request), deployment=deployment, expected_version=self.expected_version())
        return Response(status=204)

    def _answer(self, row: Slo, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(SloSerializer(row).data, version=row.version, status=status, changed=changed)
