"""Quotas in REST."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import Real, StrictSerializer, Text, Whole
from controlplane.api.views import ApiView, without_page
from controlplane.domain.quotas.measures import MEASURES, MICRO, MONEY
from controlplane.traffic import rule_selectors
from controlplane.traffic.api.fields import ADMINISTER, RuleQuery, version_field
from controlplane.traffic.models import Quota
from controlplane.traffic.services import quotas
from controlplane.traffic.services.quotas import LARGEST, QuotaWish


class QuotaSerializer(serializers.Serializer[Quota]):
    """What the requests of a tenant, of one key, or to one deployment may use; a limit that is null does not hold."""

    name = serializers.CharField()
    tenant = serializers.CharField(source="tenant.name")
    key_id = serializers.IntegerField(allow_null=True, help_text="null = all keys together.")
    deployment = serializers.CharField(
        source="deployment.name", default=None, allow_null=True, help_text="null = all deployments together."
    )
    requests_per_minute = serializers.IntegerField(allow_null=True)
    tokens_per_minute = serializers.IntegerField(allow_null=True)
    concurrent_requests = serializers.IntegerField(allow_null=True)
    tokens_per_day = serializers.IntegerField(allow_null=True, help_text="Days and months are those of UTC.")
    tokens_per_month = serializers.IntegerField(allow_null=True)
    money_per_day = serializers.FloatField(allow_null=True, help_text="In the currency of the prices.")
    money_per_month = serializers.FloatField(allow_null=True)
    version = version_field()

    def to_representation(self, instance: Quota) -> dict[str, Any]:
        """Returns the quota with each limit under its name."""
        for name, measure in MEASURES.items():
            value = instance.limits.get(name)
            setattr(instance, name, value / MICRO if value is not None and measure.unit == MONEY else value)
        return super().to_representation(instance)


class QuotaBody(StrictSerializer):
    """What requests may use; what is left out does not limit."""

    answer = QuotaSerializer

    key_id = Whole(default=None, allow_null=True, min_value=1, max_value=2**63 - 1)
    deployment = Text(default=None, allow_null=True, max_length=63)
    requests_per_minute = Whole(default=None, allow_null=True)
    tokens_per_minute = Whole(default=None, allow_null=True)
    concurrent_requests = Whole(default=None, allow_null=True)
    tokens_per_day = Whole(default=None, allow_null=True)
    tokens_per_month = Whole(default=None, allow_null=True)
    money_per_day = Real(default=None, allow_null=True, min_value=0, max_value=LARGEST // MICRO)
    money_per_month = Real(default=None, allow_null=True, min_value=0, max_value=LARGEST // MICRO)


def wish_of(body: dict[str, Any]) -> QuotaWish:
    """Returns the wish of a validated body."""
    limits: dict[str, int] = {}
    for name, measure in MEASURES.items():
        if body[name] is not None:
            limits[name] = round(body[name] * MICRO) if measure.unit == MONEY else body[name]
    return QuotaWish(limits, body["key_id"], body["deployment"] or "")


class QuotasView(ApiView):
    """All quotas."""

    roles = permissions.READ

    @schema.lists("list_quotas", QuotaSerializer, RuleQuery)
    def get(self, request: Request) -> Response:
        """Lists quotas, oldest first."""
        query = self.query(RuleQuery)
        rows = rule_selectors.quotas(**without_page(query))
        return self.page(rows, QuotaSerializer, order=("id",), query=query)


class QuotaView(ApiView):
    """One quota."""

    roles = ADMINISTER

    @schema.reads("get_quota", QuotaSerializer)
    def get(self, request: Request, tenant: str, quota: str) -> Response:
        """Reads a quota."""
        return self._answer(rule_selectors.quota(tenant, quota))

    @schema.puts("put_quota", QuotaBody, QuotaSerializer)
    def put(self, request: Request, tenant: str, quota: str) -> Response:
        """Makes a quota be as given; the same again changes nothing. What was used stays used."""
        wish, version = wish_of(self.body(QuotaBody)), self.expected_version()
        done = quotas.apply(actor=roles.acting(request), tenant=tenant, name=quota, wish=wish, expected_version=version)
        return self._answer(rule_selectors.quota(tenant, quota), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_quota")
    def delete(self, request: Request, tenant: str, quota: str) -> Response:
        """Removes a quota."""
        version = self.expected_version()
        quotas.delete(actor=roles.acting(request), tenant=tenant, name=quota, expected_version=version)
        return Response(status=204)

    def _answer(self, row: Quota, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(QuotaSerializer(row).data, version=row.version, status=status, changed=changed)
