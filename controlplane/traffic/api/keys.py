"""Making API keys, with the tier of their requests, in REST."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.accounts.api.tenants import KeySerializer, KeysView
from controlplane.api import schema
from controlplane.api.serializers import StrictSerializer, Text, Words
from controlplane.traffic import owners
from controlplane.traffic.services import new_keys


class NewKeySerializer(serializers.Serializer[Any]):
    """A key that was just made, with its text, which is shown this once."""

    key = KeySerializer()
    secret = serializers.CharField()


class KeyBody(StrictSerializer):
    """A key to be made."""

    name = Text(max_length=100)
    tier = Words(list(owners.TIERS), default=owners.STANDARD, help_text="Of all requests with it; can be changed.")
    deployments = serializers.ListField(
        child=Text(max_length=63), default=None, allow_null=True, max_length=1000, help_text="null = all."
    )
    expires_at = serializers.DateTimeField(default=None, allow_null=True)


class TenantKeysView(KeysView):
    """The keys of one tenant, and how one is made."""

    @schema.acts("create_key", NewKeySerializer, KeyBody, 201, conditional=False)
    def post(self, request: Request, tenant: str) -> Response:
        """Makes a key. Its text is in this answer and never again."""
        key, secret = new_keys.create(actor=roles.acting(request), tenant=tenant, **self.body(KeyBody))
        return Response(NewKeySerializer({"key": key, "secret": secret}).data, status=201)
