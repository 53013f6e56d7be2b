"""Tiers, and the tier of a key, in REST."""

from __future__ import annotations

from typing import get_args

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import Real, StrictSerializer, Whole, Words
from controlplane.api.views import ApiView, without_page
from controlplane.traffic import owners, rule_selectors, tiers_in_force
from controlplane.traffic.api.fields import OPERATE, DeploymentQuery, version_field
from controlplane.traffic.models import KeyTier
from controlplane.traffic.services import tiers
from controlplane.traffic.services.tiers import TierWish
from controlplane.traffic.tiers_in_force import SetBy, TierInForce


class TierSerializer(serializers.Serializer[TierInForce]):
    """How requests of a tier are treated, by one deployment or by all that have no rules of their own."""

    name = serializers.CharField()
    deployment = serializers.CharField(allow_null=True, help_text="null = all.")
    weight = serializers.FloatField(help_text="While several tiers wait they share seats by this.")
    queue_most = serializers.IntegerField(help_text="Requests that may wait.")
    queue_most_bytes = serializers.IntegerField(help_text="Bytes that the waiting requests may have together.")
    longest_wait_s = serializers.FloatField()
    total_base_s = serializers.FloatField(help_text="A request may take this …")
    total_per_token_s = serializers.FloatField(help_text="… and this for each of its tokens.")
    kv_share = serializers.FloatField(help_text="The most of a replica's KV tokens that the tier may hold.")
    set_by = serializers.ChoiceField(
        list(get_args(SetBy)),
        help_text="Whose rules these are: built_in, all = set for all deployments, pool = those or the built-in ones "
        "with the KV share that the deployment's pool says, deployment = its own.",
    )
    version = version_field()


class TierBody(StrictSerializer):
    """How requests of a tier shall be treated."""

    answer = TierSerializer

    weight = Real()
    queue_most = Whole()
    queue_most_bytes = Whole()
    longest_wait_s = Real()
    total_base_s = Real()
    total_per_token_s = Real()
    kv_share = Real(
        required=False, help_text="Left out = as it is without these rules; built in: 0.8 for batch, else 1."
    )


class KeyTierSerializer(serializers.Serializer[KeyTier]):
    """The tier that a key's requests belong to."""

    tier = serializers.CharField()
    version = version_field()


class KeyTierBody(StrictSerializer):
    """The tier that a key's requests shall belong to."""

    answer = KeyTierSerializer

    tier = Words(list(owners.TIERS))


class TiersView(ApiView):
    """All tiers."""

    roles = permissions.READ

    @schema.lists("list_tiers", TierSerializer, DeploymentQuery)
    def get(self, request: Request) -> Response:
        """Lists the tiers of all deployments and those that single ones have of their own; with `deployment` those that
        hold for it."""
        query = self.query(DeploymentQuery)
        rows = tiers_in_force.listed(**without_page(query))
        return self.page(rows, TierSerializer, order=("id",), query=query)


class TierView(ApiView):
    """A tier of all deployments that have no rules of their own for it."""

    roles = OPERATE

    @schema.reads("get_tier", TierSerializer)
    def get(self, request: Request, tier: str) -> Response:
        """Reads a tier; version 0 = as built in."""
        return self._answer(tiers_in_force.common_one(tier))

    @schema.puts("put_tier", TierBody, TierSerializer)
    def put(self, request: Request, tier: str) -> Response:
        """Makes a tier be as given; the same again changes nothing."""
        wish, version = TierWish(**self.body(TierBody)), self.expected_version()
        done = tiers.apply(actor=roles.acting(request), name=tier, wish=wish, expected_version=version)
        return self._answer(tiers_in_force.common_one(tier), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_tier")
    def delete(self, request: Request, tier: str) -> Response:
        """Removes the rules: the built-in ones hold again."""
        tiers.delete(actor=roles.acting(request), name=tier, expected_version=self.expected_version())
        return Response(status=204)

    def _answer(self, row: TierInForce, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(TierSerializer(row).data, version=row.version, status=status, changed=changed)


class DeploymentTierView(ApiView):
    """A tier as one deployment has it."""

    roles = OPERATE

    @schema.reads("get_deployment_tier", TierSerializer)
    def get(self, request: Request, deployment: str, tier: str) -> Response:
        """Reads a tier as it holds for the deployment; version 0 = it has no rules of its own for it."""
        return self._answer(tiers_in_force.one(deployment, tier))

    @schema.puts("put_deployment_tier", TierBody, TierSerializer)
    def put(self, request: Request, deployment: str, tier: str) -> Response:
        """Gives a deployment rules of its own for a tier; the same again changes nothing."""
        wish, version = TierWish(**self.body(TierBody)), self.expected_version()
        done = tiers.apply(
            actor=roles.acting(request), name=tier, deployment=deployment, wish=wish, expected_version=version
        )
        return self._answer(tiers_in_force.one(deployment, tier), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_deployment_tier")
    def delete(self, request: Request, deployment: str, tier: str) -> Response:
        """Removes the rules: those of all deployments hold again."""
        version = self.expected_version()
        tiers.delete(actor=roles.acting(request), name=tier, deployment=deployment, expected_version=version)
        return Response(status=204)

    def _answer(self, row: TierInForce, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(TierSerializer(row).data, version=row.version, status=status, changed=changed)


class KeyTierView(ApiView):
    """The tier of a key's requests."""

    roles = {"GET": "viewer", "PUT": "administrator"}

    @schema.reads("get_key_tier", KeyTierSerializer)
    def get(self, request: Request, tenant: str, id: int) -> Response:
        """Reads the tier of a key; version 0 = nobody said one."""
        return self._answer(rule_selectors.key_tier(tenant, id))

    @schema.puts("put_key_tier", KeyTierBody, KeyTierSerializer)
    def put(self, request: Request, tenant: str, id: int) -> Response:
        """Says which tier a key's requests belong to; the same again changes nothing."""
        body, version = self.body(KeyTierBody), self.expected_version()
        done = tiers.apply_of_key(
            actor=roles.acting(request), tenant=tenant, key_id=id, tier=body["tier"], expected_version=version
        )
        return self._answer(done.row, 201 if done.created else 200, done.changed)

    def _answer(self, row: KeyTier, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(KeyTierSerializer(row).data, version=row.version, status=status, changed=changed)
