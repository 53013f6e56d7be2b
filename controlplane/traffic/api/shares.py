"""Shares of tenants in REST."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import Real, StrictSerializer, Truth
from controlplane.api.views import ApiView, without_page
from controlplane.traffic import rule_selectors
from controlplane.traffic.api.fields import ADMINISTER, RuleQuery, version_field
from controlplane.traffic.models import Share
from controlplane.traffic.services import shares
from controlplane.traffic.services.shares import ShareWish


class ShareSerializer(serializers.Serializer[Share]):
    """A tenant's part of a deployment's seats and KV tokens; what is guaranteed and idle is lent to others."""

    tenant = serializers.CharField(source="tenant.name")
    deployment = serializers.CharField(source="deployment.name")
    weight = serializers.FloatField(help_text="Tenants that wait share by this, counted in tokens served.")
    guaranteed = serializers.FloatField()
    most = serializers.FloatField()
    guaranteed_sum = serializers.FloatField(help_text="What all tenants are guaranteed; above 1 it is oversold.")
    version = version_field()


class ShareBody(StrictSerializer):
    """What part a tenant shall have."""

    answer = ShareSerializer

    weight = Real(default=1.0)
    guaranteed = Real(default=0.0)
    most = Real(default=1.0)
    override = Truth(default=False, help_text="Guarantee more than there is.")


class SharesView(ApiView):
    """All shares."""

    roles = permissions.READ

    @schema.lists("list_shares", ShareSerializer, RuleQuery)
    def get(self, request: Request) -> Response:
        """Lists shares, oldest first."""
        query = self.query(RuleQuery)
        rows = rule_selectors.shares(**without_page(query))
        return self.page(rows, ShareSerializer, order=("id",), query=query)


class ShareView(ApiView):
    """One tenant's share of one deployment."""

    roles = ADMINISTER

    @schema.reads("get_share", ShareSerializer)
    def get(self, request: Request, tenant: str, deployment: str) -> Response:
        """Reads a share."""
        return self._answer(rule_selectors.share(tenant, deployment))

    @schema.puts("put_share", ShareBody, ShareSerializer)
    def put(self, request: Request, tenant: str, deployment: str) -> Response:
        """Makes a share be as given; refused where more than the whole would be guaranteed, unless overridden."""
        body, version = self.body(ShareBody), self.expected_version()
        override = body.pop("override")
        done = shares.apply(
            actor=roles.acting(request), tenant=tenant, deployment=deployment, wish=ShareWish(**body),
            override=override, expected_version=version,
        )  # fmt: skip
        return self._answer(rule_selectors.share(tenant, deployment), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_share")
    def delete(self, request: Request, tenant: str, deployment: str) -> Response:
        """Removes a share: the tenant is treated as everybody."""
        version = self.expected_version()
        shares.delete(actor=roles.acting(request), tenant=tenant, deployment=deployment, expected_version=version)
        return Response(status=204)

    def _answer(self, row: Share, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(ShareSerializer(row).data, version=row.version, status=status, changed=changed)
