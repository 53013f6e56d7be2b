"""Fields that the rules of traffic have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from controlplane.api import permissions
from controlplane.api.serializers import PageQuery

OPERATE: permissions.Roles = {"GET": "viewer", "PUT": "operator", "DELETE": "operator"}
ADMINISTER: permissions.Roles = {"GET": "viewer", "PUT": "administrator", "DELETE": "administrator"}


class RuleQuery(PageQuery):
    """Filters of rules."""

    tenant = serializers.CharField(required=False, max_length=63)
    deployment = serializers.CharField(required=False, max_length=63)


class DeploymentQuery(PageQuery):
    """Filters of rules of deployments."""

    deployment = serializers.CharField(required=False, max_length=63)


def version_field() -> serializers.IntegerField:
    """Returns the field that shows a row's version."""
    return serializers.IntegerField(help_text="The number in the ETag.")


def given(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Returns those of the values that have these names."""
    return {name: values[name] for name in names}
