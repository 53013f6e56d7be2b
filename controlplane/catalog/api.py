"""Models and variants in REST."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts import roles
from controlplane.api import permissions, schema
from controlplane.api.serializers import Facts, PageQuery, StrictSerializer, Text, Whole
from controlplane.api.views import ApiView, without_page
from controlplane.catalog import selectors
from controlplane.catalog.models import Model, Variant
from controlplane.catalog.services import models
from controlplane.catalog.services.models import ModelWish, VariantWish


class VariantSerializer(serializers.Serializer[Variant]):
    """One precision of a model, and where its files are."""

    name = serializers.CharField()
    model = serializers.CharField(source="model.name")
    address = serializers.SerializerMethodField(help_text="`model/variant`, as deployments name it.")
    path = serializers.CharField(help_text="A folder on the nodes, or a name that the engine resolves.")
    precision = serializers.CharField()
    size_bytes = serializers.IntegerField(allow_null=True)
    deployments_total = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField(help_text="The number in the ETag.")

    def get_address(self, row: Variant) -> str:
        """Returns `model/variant`."""
        return f"{row.model.name}/{row.name}"


class ModelSerializer(serializers.Serializer[Model]):
    """A language model, independent of precision."""

    name = serializers.CharField()
    display_name = serializers.CharField()
    family = serializers.CharField()
    parameters = serializers.IntegerField(allow_null=True)
    context_length_tokens = serializers.IntegerField(allow_null=True)
    licence = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
    architecture = Facts(help_text="Facts of its config.json.")
    variants = VariantSerializer(many=True)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField(help_text="The number in the ETag.")


class ModelBody(StrictSerializer):
    """What is known of a model; what is left out is not known."""

    answer = ModelSerializer

    display_name = Text(default="", allow_blank=True, max_length=200, help_text="By default the name.")
    family = Text(default="", allow_blank=True, max_length=64)
    parameters = Whole(default=None, allow_null=True, min_value=1)
    context_length_tokens = Whole(default=None, allow_null=True, min_value=1, max_value=2**31 - 1)
    licence = Text(default="", allow_blank=True, max_length=64)
    source = Text(default="", allow_blank=True, max_length=300)  # type: ignore[assignment]
    architecture = Facts(default=dict)


class VariantBody(StrictSerializer):
    """One precision of a model, and where its files are."""

    answer = VariantSerializer

    path = Text(max_length=500)
    precision = Text(default="bf16", max_length=32)
    size_bytes = Whole(default=None, allow_null=True, min_value=0)


class ModelQuery(PageQuery):
    """Filters of models."""

    family = serializers.CharField(required=False, max_length=64)
    search = serializers.CharField(required=False, max_length=100)


class ModelsView(ApiView):
    """All models."""

    roles = permissions.READ

    @schema.lists("list_models", ModelSerializer, ModelQuery)
    def get(self, request: Request) -> Response:
        """Lists models with their variants, by name."""
        query = self.query(ModelQuery)
        return self.page(selectors.models(**without_page(query)), ModelSerializer, order=("name",), query=query)


class ModelView(ApiView):
    """One model."""

    roles = permissions.READ_WRITE

    @schema.reads("get_model", ModelSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Reads a model with its variants."""
        return self._answer(selectors.model(name))

    @schema.puts("put_model", ModelBody, ModelSerializer)
    def put(self, request: Request, name: str) -> Response:
        """Makes a model be as given; the same again changes nothing. Its variants stay as they are."""
        wish, version = ModelWish(**self.body(ModelBody)), self.expected_version()
        done = models.apply_model(actor=roles.acting(request), name=name, wish=wish, expected_version=version)
        return self._answer(selectors.model(name), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_model")
    def delete(self, request: Request, name: str) -> Response:
        """Removes a model with its variants; refused, naming the deployments, while one of them uses it."""
        models.delete_model(actor=roles.acting(request), name=name, expected_version=self.expected_version())
        return Response(status=204)

    def _answer(self, row: Model, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(ModelSerializer(row).data, version=row.version, status=status, changed=changed)


class VariantsView(ApiView):
    """The variants of one model."""

    roles = permissions.READ

    @schema.lists("list_variants", VariantSerializer, PageQuery)
    def get(self, request: Request, model: str) -> Response:
        """Lists the variants of a model by name."""
        query = self.query(PageQuery)
        rows = selectors.variants(model=selectors.model(model).name)
        return self.page(rows, VariantSerializer, order=("name",), query=query)


class VariantView(ApiView):
    """One variant."""

    roles = permissions.READ_WRITE

    @schema.reads("get_variant", VariantSerializer)
    def get(self, request: Request, model: str, name: str) -> Response:
        """Reads a variant."""
        return self._answer(selectors.variant(model, name))

    @schema.puts("put_variant", VariantBody, VariantSerializer)
    def put(self, request: Request, model: str, name: str) -> Response:
        """Makes a variant be as given; the same again changes nothing."""
        wish, version = VariantWish(**self.body(VariantBody)), self.expected_version()
        actor = roles.acting(request)
        done = models.apply_variant(actor=actor, model=model, name=name, wish=wish, expected_version=version)
        return self._answer(selectors.variant(model, name), 201 if done.created else 200, done.changed)

    @schema.deletes("delete_variant")
    def delete(self, request: Request, model: str, name: str) -> Response:
        """Removes a variant; refused, naming the deployments, while one of them uses it."""
        version = self.expected_version()
        models.delete_variant(actor=roles.acting(request), model=model, name=name, expected_version=version)
        return Response(status=204)

    def _answer(self, row: Variant, status: int = 200, changed: bool | None = None) -> Response:
        return self.row(VariantSerializer(row).data, version=row.version, status=status, changed=changed)
