"""Pools in REST."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import PageQuery, Real, StrictSerializer, Truth, Words
from controlplane.api.views import ApiView
from controlplane.fleet import selectors
from controlplane.fleet.models import Pool
from controlplane.fleet.services import pools


class PoolSerializer(serializers.Serializer[Pool]):
    """A named group of nodes."""

    name = serializers.CharField()
    purpose = serializers.ChoiceField(Pool.Purpose.choices)
    hot = serializers.BooleanField()
    strategy = serializers.ChoiceField(Pool.Strategy.choices, help_text="How replicas are placed.")
    batch_kv_share = serializers.FloatField(
        allow_null=True,
        help_text="The most of a replica's KV tokens that the batch tier may hold; null = as the tier says.",
    )
    nodes_total = serializers.IntegerField()
    nodes_lost = serializers.IntegerField()
    version = serializers.IntegerField(help_text="The number in the ETag.")


class PoolBody(StrictSerializer):
    """What a pool shall be; what is left out gets its default."""

    answer = PoolSerializer

    purpose = Words(Pool.Purpose.choices, default=Pool.Purpose.MIXED.value)
    hot = Truth(default=True)
    strategy = Words(Pool.Strategy.choices, default=Pool.Strategy.SPREAD.value)
    batch_kv_share = Real(default=None, allow_null=True, min_value=0.001, max_value=1)


class PoolsView(ApiView):
    """All pools."""

    roles = permissions.READ

    @schema.lists("list_pools", PoolSerializer, PageQuery)
    def get(self, request: Request) -> Response:
        """Lists pools by name."""
        query = self.query(PageQuery)
        return self.page(selectors.pools(), PoolSerializer, order=("name",), query=query)


class PoolView(ApiView):
    """One pool."""

    roles = permissions.READ_WRITE

    @schema.reads("get_pool", PoolSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Reads a pool."""
        return self._answer(selectors.pool(name))

    @schema.puts("put_pool", PoolBody, PoolSerializer)
    def put(self, request: Request, name: str) -> Response:
        """Makes a pool be as given; the same again changes nothing."""
        wish, version = self.body(PoolBody), self.expected_version()
        done = pools.apply(actor=roles.acting(request), name=name, expected_version=version, **wish)
        return self._answer(selectors.pool(name), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_pool")
    def delete(self, request: Request, name: str) -> Response:
        """Removes an empty pool."""
        pools.delete(actor=roles.acting(request), name=name, expected_version=self.expected_version())
        return Response(status=204)

    def _answer(self, row: Pool, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(PoolSerializer(row).data, version=row.version, status=status, changed=changed)
