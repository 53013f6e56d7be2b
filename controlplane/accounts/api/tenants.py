"""Tenants and the API keys of their applications in REST."""

from __future__ import annotations

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles, selectors
from controlplane.accounts.models import ApiKey, Tenant
from controlplane.accounts.services import keys, tenants
from controlplane.api import permissions, schema
from controlplane.api.serializers import PageQuery, StrictSerializer, Text
from controlplane.api.views import ApiView, without_page
from controlplane.domain.admission.tiers import STANDARD

READ_AND_ADMINISTER: permissions.Roles = {
    "GET": "viewer",
    "PUT": "administrator",
    "POST": "administrator",
    "DELETE": "administrator",
}


class TenantSerializer(serializers.Serializer[Tenant]):
    """A team whose applications send requests."""

    name = serializers.CharField()
    description = serializers.CharField()
    keys_usable = serializers.IntegerField(help_text="Keys that are not revoked.")
    newest_key_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField(help_text="The number in the ETag.")


class TenantBody(StrictSerializer):
    """What a tenant shall be."""

    answer = TenantSerializer

    description = Text(default="", allow_blank=True, max_length=200)


class TenantQuery(PageQuery):
    """Filters of tenants."""

    search = serializers.CharField(required=False, max_length=100)


class KeySerializer(serializers.Serializer[ApiKey]):
    """A key of the gateway; its text is not kept."""

    id = serializers.IntegerField()
    tenant = serializers.CharField(source="tenant.name")
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="How it begins, to recognise it.")
    tier = serializers.SerializerMethodField(help_text="Of all requests with it: `PUT …/tier/` says another one.")
    deployments = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="Names of those it may use; null = all."
    )
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)

    def get_tier(self, row: ApiKey) -> str:
        """Returns its tier, which the rules of traffic keep where it is not the standard one."""
        kept = getattr(row, "tier", None)
        return str(kept.tier) if kept else STANDARD.name


class TenantsView(ApiView):
    """All tenants."""

    roles = permissions.READ

    @schema.lists("list_tenants", TenantSerializer, TenantQuery)
    def get(self, request: Request) -> Response:
        """Lists tenants by name."""
        query = self.query(TenantQuery)
        return self.page(selectors.tenants(**without_page(query)), TenantSerializer, order=("name",), query=query)


class TenantView(ApiView):
    """One tenant."""

    roles = READ_AND_ADMINISTER

    @schema.reads("get_tenant", TenantSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Reads a tenant."""
        return self._answer(selectors.tenant(name))

    @schema.puts("put_tenant", TenantBody, TenantSerializer)
    def put(self, request: Request, name: str) -> Response:
        """Makes a tenant be as given; the same again changes nothing."""
        wish, version = self.body(TenantBody), self.expected_version()
        done = tenants.apply(actor=roles.acting(request), name=name, expected_version=version, **wish)
        return self._answer(selectors.tenant(name), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_tenant")
    def delete(self, request: Request, name: str) -> Response:
        """Removes a tenant; refused while it has keys that are not revoked."""
        tenants.delete(actor=roles.acting(request), name=name, expected_version=self.expected_version())
        return Response(status=204)

    def _answer(self, row: Tenant, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(TenantSerializer(row).data, version=row.version, status=status, changed=changed)


class KeyQuery(PageQuery):
    """Filters of keys."""

    tenant = serializers.CharField(required=False, max_length=63)
    usable = serializers.BooleanField(default=False, help_text="Only those that are neither revoked nor expired.")


class AllKeysView(ApiView):
    """The keys of all tenants."""

    roles = permissions.READ

    @schema.lists("list_all_keys", KeySerializer, KeyQuery)
    def get(self, request: Request) -> Response:
        """Lists keys of all tenants, the revoked ones too, oldest first."""
        query = self.query(KeyQuery)
        usable_at = timezone.now() if query["usable"] else None
        rows = selectors.keys(tenant=query.get("tenant"), usable_at=usable_at)
        return self.page(rows, KeySerializer, order=("id",), query=query)


class KeysView(ApiView):
    """The keys of one tenant; `traffic`, which knows the tiers, adds how one is made."""

    roles = READ_AND_ADMINISTER

    @schema.lists("list_keys", KeySerializer, PageQuery)
    def get(self, request: Request, tenant: str) -> Response:
        """Lists the keys of a tenant, the revoked ones too, oldest first."""
        query = self.query(PageQuery)
        rows = selectors.keys(tenant=selectors.tenant(tenant).name)
        return self.page(rows, KeySerializer, order=("id",), query=query)


class KeyView(ApiView):
    """One key."""

    roles = READ_AND_ADMINISTER

    @schema.reads("get_key", KeySerializer)
    def get(self, request: Request, tenant: str, id: int) -> Response:
        """Reads a key."""
        return self._answer(selectors.key(tenant, id))

    @schema.deletes("revoke_key", 200, KeySerializer)
    def delete(self, request: Request, tenant: str, id: int) -> Response:
        """Ends a key for ever: gateways refuse it within seconds; it stays in the list as revoked."""
        version = self.expected_version()
        return self._answer(
            keys.revoke(actor=roles.acting(request), tenant=tenant, key_id=id, expected_version=version)
        )

    def _answer(self, row: ApiKey) -> Response:
        return self.row(KeySerializer(row).data, version=keys.version(row))
