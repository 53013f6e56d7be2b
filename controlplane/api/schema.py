"""How views describe themselves in OpenAPI: one decorator, so that errors and conditions look the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from controlplane.api.serializers import Facts

View = TypeVar("View", bound=Callable[..., Any])
Shape = type[serializers.Serializer[Any]]


class ErrorBodySerializer(serializers.Serializer[Any]):
    """What went wrong: `code` for programs, `message` for people."""

    code = serializers.CharField()
    message = serializers.CharField()
    details = Facts(help_text="`fields` (field -> what would be right), `hint`, and facts such as `changed_by`.")


class ErrorSerializer(serializers.Serializer[Any]):
    """Every answer with a status of 400 or above."""

    error = ErrorBodySerializer()


class BearerTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The security scheme of REST tokens."""

    target_class = "controlplane.api.authentication.BearerTokenAuthentication"
    name = "bearerToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Returns the OpenAPI object of the scheme."""
        return {"type": "http", "scheme": "bearer", "description": "A REST token, as `Authorization: Bearer hwt-…`."}


_MEANINGS = {
    400: "The body, the query or a name can't be used; `details.fields` says why.",
    401: "No token, or one that is unknown, expired or revoked.",
    403: "The role of the user or of the token does not allow this.",
    404: "There is no such object.",
    409: "The object is in a state, or in a use, that does not allow this.",
    412: "The object was changed meanwhile; `details` says by whom and when.",
    503: "Something that is needed does not answer.",
}
_IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag that was read; 412 when it is not the newest.",
)
_IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, description="The ETag that is known; 304 when nothing changed."
)
_CREATE_ONLY = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, description="`*` = only when there is no such object yet."
)
_ETAG = OpenApiParameter("ETag", str, OpenApiParameter.HEADER, response=True, description="Version of the object.")
_CHANGED = OpenApiParameter(
    "X-Headworks-Changed", bool, OpenApiParameter.HEADER, response=True, description="Whether anything was changed."
)


def errors(*statuses: int) -> dict[int, OpenApiResponse]:
    """Returns the descriptions of error answers."""
    return {status: OpenApiResponse(ErrorSerializer, description=_MEANINGS[status]) for status in sorted(statuses)}


@cache
def page_of(shape: Shape) -> Shape:
    """Returns the shape of a page of `shape`."""
    name = shape.__name__.removesuffix("Serializer")
    fields = {
        "__doc__": f"Some rows of {name}, and where the others are.",
        "count": serializers.IntegerField(help_text="Rows in all pages."),
        "next": serializers.URLField(allow_null=True, help_text="The page after this one."),
        "previous": serializers.URLField(allow_null=True, help_text="The page before this one."),
        "results": shape(many=True),
    }
    return type(f"{name}PageSerializer", (serializers.Serializer,), fields)


def lists(operation_id: str, shape: Shape, query: Shape) -> Callable[[View], View]:
    """Describes a GET that answers a page."""
    return extend_schema(
        operation_id=operation_id, parameters=[query], responses={200: page_of(shape), **errors(400, 401, 403, 404)}
    )


def reads(
    operation_id: str, shape: Shape, query: Shape | None = None, *, tagged: bool = True
) -> Callable[[View], View]:
    """Describes a GET that answers one object; `tagged`: with an ETag."""
    parameters: list[Any] = [_IF_NONE_MATCH, _ETAG] if tagged else []
    unchanged = {304: OpenApiResponse(description="Nothing changed.")} if tagged else {}
    return extend_schema(
        operation_id=operation_id,
        parameters=[*parameters, *([query] if query else [])],
        responses={200: shape, **unchanged, **errors(400, 401, 403, 404)},
    )


def puts(operation_id: str, body: Shape, shape: Shape) -> Callable[[View], View]:
    """Describes a PUT that makes an object be as given."""
    return extend_schema(
        operation_id=operation_id,
        parameters=[_IF_MATCH, _CREATE_ONLY, _ETAG, _CHANGED],
        request=body,
        responses={
            200: OpenApiResponse(shape, description="It existed; `X-Headworks-Changed` says whether it was changed."),
            201: OpenApiResponse(shape, description="It was made."),
            **errors(400, 401, 403, 404, 409, 412),
        },
    )


def acts(
    operation_id: str, shape: Shape | None, body: Shape | None = None, status: int = 200, *, conditional: bool = True
) -> Callable[[View], View]:
    """Describes a POST that does something to an object, or makes one without a name of its own.

    `conditional`: it takes `If-Match`. What makes something new has nothing to compare with, and what people do to a
    replica is right in each of its states.
    """
    failed = errors(400, 401, 403, 404, 409, 503, *([412] if conditional else []))
    return extend_schema(
        operation_id=operation_id,
        parameters=[_IF_MATCH] if conditional else [],
        request=body,
        responses={status: shape, **failed},
    )


def deletes(operation_id: str, status: int = 204, shape: Shape | None = None) -> Callable[[View], View]:
    """Describes a DELETE."""
    return extend_schema(
        operation_id=operation_id,
        parameters=[_IF_MATCH],
        responses={status: shape, **errors(401, 403, 404, 409, 412)},
    )


def tag_descriptions(names: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Returns OpenAPI's list of tags."""
    return [{"name": name, "description": text} for name, text in names]
