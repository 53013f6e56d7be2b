"""Degradation ladders and prices of deployments in REST."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import PageQuery, Real, StrictSerializer, Text, Whole, Words
from controlplane.api.views import ApiView
from controlplane.domain import degradation
from controlplane.domain.quotas.quota import Price as PriceWish
from controlplane.traffic import rule_selectors
from controlplane.traffic.api.fields import ADMINISTER, OPERATE, version_field
from controlplane.traffic.models import Ladder, Price
from controlplane.traffic.services import ladders

KINDS = list(degradation.KINDS)


class LadderStepSerializer(serializers.Serializer[Any]):
    """One step; `max_tokens` is of `cap_tokens`, `deployment` of `divert`."""

    kind = serializers.ChoiceField(KINDS)
    tiers = serializers.ListField(child=serializers.CharField(), help_text="Empty = all.")
    max_tokens = serializers.IntegerField(allow_null=True, help_text="null at other kinds than cap_tokens.")
    deployment = serializers.CharField(allow_null=True, help_text="null at other kinds than divert.")

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """Returns the step; null is what its kind does not use."""
        shown: dict[str, Any] = super().to_representation(instance)
        return {name: value if degradation.uses(shown["kind"], name) else None for name, value in shown.items()}


class LadderStepBody(StrictSerializer):
    """One step."""

    answer = LadderStepSerializer

    kind = Words(KINDS)
    tiers = serializers.ListField(child=Text(max_length=16), default=list, max_length=10)
    max_tokens = Whole(default=None, allow_null=True, help_text=f"Of cap_tokens; {degradation.CAP_TOKENS} if left out.")
    deployment = Text(default=None, allow_null=True, allow_blank=True, max_length=63, help_text="Of divert.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuses what the kind does not use, so that nobody takes it for something that is done."""
        given = {name: attrs.pop(name) for name in degradation.KIND_OF}
        said = {name: value for name, value in given.items() if value is not None}
        if needless := degradation.needless(attrs["kind"], said):
            raise serializers.ValidationError(needless)
        return {**attrs, **said}


class LadderSerializer(serializers.Serializer[Ladder]):
    """What a deployment does less well while it is saturated, in the order in which it is done."""

    deployment = serializers.CharField(source="deployment.name")
    steps = LadderStepSerializer(many=True)
    version = version_field()


class LadderBody(StrictSerializer):
    """What a deployment shall do."""

    answer = LadderSerializer

    steps = serializers.ListField(child=LadderStepBody(), max_length=ladders.MOST_STEPS)


class PriceSerializer(serializers.Serializer[Price]):
    """What a million tokens of a deployment cost, in the installation's currency."""

    deployment = serializers.CharField(source="deployment.name")
    prompt_per_million = serializers.FloatField()
    completion_per_million = serializers.FloatField()
    version = version_field()


class PriceBody(StrictSerializer):
    """What a million tokens shall cost."""

    answer = PriceSerializer

    prompt_per_million = Real()
    completion_per_million = Real()


class LaddersView(ApiView):
    """All ladders."""

    roles = permissions.READ

    @schema.lists("list_ladders", LadderSerializer, PageQuery)
    def get(self, request: Request) -> Response:
        """Lists the ladders of deployments, oldest first."""
        query = self.query(PageQuery)
        return self.page(rule_selectors.ladders(), LadderSerializer, order=("id",), query=query)


class LadderView(ApiView):
    """The ladder of a deployment."""

    roles = OPERATE

    @schema.reads("get_ladder", LadderSerializer)
    def get(self, request: Request, deployment: str) -> Response:
        """Reads a ladder."""
        return self._answer(rule_selectors.ladder(deployment))

    @schema.puts("put_ladder", LadderBody, LadderSerializer)
    def put(self, request: Request, deployment: str) -> Response:
        """Makes a ladder be as given; the same again changes nothing."""
        steps, version = self.body(LadderBody)["steps"], self.expected_version()
        wish = degradation.Ladder(tuple(degradation.Step(**{**step, "tiers": tuple(step["tiers"])}) for step in steps))
        done = ladders.apply(actor=roles.acting(request), deployment=deployment, wish=wish, expected_version=version)
        return self._answer(rule_selectors.ladder(deployment), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_ladder")
    def delete(self, request: Request, deployment: str) -> Response:
        """Removes a ladder: the deployment never degrades."""
        version = self.expected_version()
        ladders.delete(actor=roles.acting(request), deployment=deployment, expected_version=version)
        return Response(status=204)

    def _answer(self, row: Ladder, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(LadderSerializer(row).data, version=row.version, status=status, changed=changed)


class PricesView(ApiView):
    """All prices."""

    roles = permissions.READ

    @schema.lists("list_prices", PriceSerializer, PageQuery)
    def get(self, request: Request) -> Response:
        """Lists the prices of deployments, oldest first."""
        query = self.query(PageQuery)
        return self.page(rule_selectors.prices(), PriceSerializer, order=("id",), query=query)


class PriceView(ApiView):
    """The price of a deployment."""

    roles = ADMINISTER

    @schema.reads("get_price", PriceSerializer)
    def get(self, request: Request, deployment: str) -> Response:
        """Reads a price."""
        return self._answer(rule_selectors.price(deployment))

    @schema.puts("put_price", PriceBody, PriceSerializer)
    def put(self, request: Request, deployment: str) -> Response:
        """Says what a million tokens cost; the same again changes nothing."""
        wish, version = PriceWish(**self.body(PriceBody)), self.expected_version()
        done = ladders.apply_price(
            actor=roles.acting(request), deployment=deployment, wish=wish, expected_version=version
        )
        return self._answer(rule_selectors.price(deployment), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_price")
    def delete(self, request: Request, deployment: str) -> Response:
        """Removes a price: the deployment costs nothing."""
        version = self.expected_version()
        ladders.delete_price(actor=roles.acting(request), deployment=deployment, expected_version=version)
        return Response(status=204)

    def _answer(self, row: Price, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(PriceSerializer(row).data, version=row.version, status=status, changed=changed)
