"""Usage in REST."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import permissions, schema
from controlplane.api.serializers import PageQuery, Words
from controlplane.api.views import ApiView, without_page
from controlplane.traffic import selectors


class UsageSerializer(serializers.Serializer[dict[str, Any]]):
    """What was used in one hour or day; a group that was not asked for is null."""

    start = serializers.DateTimeField()
    tenant = serializers.CharField(default=None, allow_null=True)
    key_id = serializers.CharField(default=None, allow_null=True)
    deployment = serializers.CharField(default=None, allow_null=True)
    requests = serializers.IntegerField(source="requests_sum")
    errors = serializers.IntegerField(source="errors_sum")  # type: ignore[assignment]
    prompt_tokens = serializers.IntegerField(source="prompt_tokens_sum")
    completion_tokens = serializers.IntegerField(source="completion_tokens_sum")


class UsageQuery(PageQuery):
    """How to sum up, and what."""

    step = Words(["hour", "day"], default="hour")
    by = serializers.CharField(
        default=",".join(selectors.GROUPS), max_length=100, help_text="Groups: `tenant`, `key_id`, `deployment`."
    )
    tenant = serializers.CharField(required=False, max_length=63)
    key_id = serializers.CharField(required=False, max_length=32)
    deployment = serializers.CharField(required=False, max_length=63)
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)

    def validate_by(self, value: str) -> list[str]:
        """Returns the groups, in the order in which rows are sorted."""
        asked = {part.strip() for part in value.split(",")}
        if not asked <= set(selectors.GROUPS):
            raise serializers.ValidationError(f"Give some of {', '.join(selectors.GROUPS)}.")
        return [name for name in selectors.GROUPS if name in asked]


class UsageView(ApiView):
    """Usage."""

    roles = permissions.READ

    @schema.lists("list_usage", UsageSerializer, UsageQuery)
    def get(self, request: Request) -> Response:
        """Lists requests and tokens by hour or day (UTC), newest first, summed up by tenant, key and deployment."""
        query = self.query(UsageQuery)
        filters = without_page(query)
        groups = filters.pop("by")
        rows = selectors.usage(groups=groups, **filters)
        return self.page(rows, UsageSerializer, order=("-start", *groups), query=query)
