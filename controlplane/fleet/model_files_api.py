"""Which models' files nodes have, in REST."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import permissions, schema
from controlplane.api.serializers import PageQuery, Words
from controlplane.api.views import ApiView, without_page
from controlplane.fleet import selectors
from controlplane.fleet.models import ModelFiles


class ModelFilesSerializer(serializers.Serializer[ModelFiles]):
    """What a node has of a model's files, as it saw them last."""

    location = serializers.CharField(help_text="A path on the node, or a name on the Hugging Face Hub.")
    state = serializers.ChoiceField(
        ModelFiles.State.choices, help_text="unknown = it could not be read; `reason` says why."
    )
    size_bytes = serializers.IntegerField(help_text="Of the weight files that are there.")
    missing = serializers.IntegerField(help_text="Weight files that belong to it and are not there whole.")
    reason = serializers.CharField(help_text="What is wrong; the empty text when nothing is.")
    looked_at = serializers.DateTimeField(
        help_text="When the node looked; what is older than 2 minutes counts no more."
    )


class ModelFilesQuery(PageQuery):
    """Filters of model files."""

    state = Words(ModelFiles.State.choices, required=False)


class ModelFilesView(ApiView):
    """The models' files of one node."""

    roles = permissions.READ

    @schema.lists("list_model_files", ModelFilesSerializer, ModelFilesQuery)
    def get(self, request: Request, name: str) -> Response:
        """Lists what a node has of the files of deployed models and of the catalog's."""
        query = self.query(ModelFilesQuery)
        rows = selectors.model_files(node=selectors.node(name).name, **without_page(query))
        return self.page(rows, ModelFilesSerializer, order=("location",), query=query)
