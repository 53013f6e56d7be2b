"""The base of every REST view: parse, call one service or selector, answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import etags, pagination, permissions
from controlplane.api.serializers import NothingSerializer, PageQuery, StrictSerializer
from controlplane.domain.errors import RefusedError

CHANGED_HEADER = "X-Headworks-Changed"


class ApiView(APIView):
    """A view that says which role each of its methods needs, with helpers for the steps that all views share."""

    roles: ClassVar[permissions.Roles]

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Keeps answers out of shared caches, and those of writes (which may hold a new secret) out of all."""
        response.headers.setdefault("Cache-Control", "private, no-cache" if request.method == "GET" else "no-store")
        return super().finalize_response(request, response, *args, **kwargs)

    def body(self, shape: type[StrictSerializer]) -> dict[str, Any]:
        """Returns the validated body; raises ValidationError naming the fields."""
        return _validated(shape, self.request.data)

    def nothing(self) -> None:
        """Refuses a body that is not empty."""
        _validated(NothingSerializer, self.request.data)

    def query(self, shape: type[StrictSerializer]) -> dict[str, Any]:
        """Returns the validated query parameters; unknown and repeated ones are errors."""
        repeated = [name for name, values in self.request.query_params.lists() if len(values) > 1]
        if repeated:
            raise serializers.ValidationError({name: ["Give this once."] for name in repeated})
        return _validated(shape, self.request.query_params.dict())

    def page(
        self,
        rows: QuerySet[Any, Any] | Sequence[Any],
        shape: type[serializers.Serializer[Any]],
        *,
        order: Sequence[str],
        query: dict[str, Any],
    ) -> Response:
        """Answers one page of rows; `query` has been validated by a PageQuery."""
        page = pagination.page(rows, order=order, limit=query["limit"], cursor=query.get("cursor"))
        shown = shape(page.rows, many=True, context={"request": self.request}).data
        links = {"next": self._link(page.next_cursor), "previous": self._link(page.previous_cursor)}
        return Response({"count": page.count, **links, "results": shown})

    def row(self, shown: Any, *, version: int, status: int = 200, changed: bool | None = None) -> Response:
        """Answers one resource with its ETag; 304 for a reader who has it already."""
        shown = dict(shown)
        tag = etags.etag(version, shown)
        headers = {"ETag": tag}
        if changed is not None:
            headers[CHANGED_HEADER] = "true" if changed else "false"
        if self.request.method in ("GET", "HEAD") and etags.is_known(self.request, tag):
            return Response(status=304, headers=headers)
        return Response(shown, status=status, headers=headers)

    def expected_version(self) -> int | None:
        """Returns the version that the request's conditions ask for: None = any, 0 = must not exist."""
        condition = etags.condition(self.request)
        return self._version_now() if condition.must_exist else condition.version

    def _version_now(self) -> int:
        try:
            shown: Response = self.get(self.request, **self.kwargs)  # type: ignore[attr-defined]
        except RefusedError as error:
            if error.kind != "not_found":
                raise
            return etags.NEVER
        return etags.version_of(shown.headers["ETag"])

    def _link(self, cursor: str | None) -> str | None:
        if cursor is None:
            return None
        query = self.request.query_params.copy()
        query["cursor"] = cursor
        return self.request.build_absolute_uri(f"{self.request.path}?{query.urlencode()}")


def without_page(query: dict[str, Any]) -> dict[str, Any]:
    """Returns the filters of a list's query, without what pages it."""
    paging = PageQuery().fields.keys()
    return {name: value for name, value in query.items() if name not in paging}


def _validated(shape: type[StrictSerializer], data: Any) -> dict[str, Any]:
    serializer = shape(data=data)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
