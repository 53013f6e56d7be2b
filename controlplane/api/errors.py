"""Every error of REST in one shape: `{"error": {"code", "message", "details"}}`.

`code` is for programs and searches, `message` is a sentence for people, `details` may have `fields` (name of a field
-> what would be right), `hint` (what to do) and facts such as `changed_by`. There is never a traceback in an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import redis
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response

from controlplane.domain.errors import RefusalKind, RefusedError

logger = logging.getLogger(__name__)

STATUS: Mapping[RefusalKind, int] = {
    "invalid": 400,
    "not_found": 404,
    "conflict": 409,
    "forbidden": 403,
    "unavailable": 503,
}
CHANGED_MEANWHILE = "changed_meanwhile"  # the one conflict that is a failed precondition

# what DRF calls it -> code, sentence (None = DRF's own)
_CODES: Mapping[type[exceptions.APIException], tuple[str, str | None]] = {
    exceptions.ParseError: ("malformed", None),
    exceptions.NotAuthenticated: ("not_authenticated", "Send a token: `Authorization: Bearer …`."),
    exceptions.AuthenticationFailed: ("not_authenticated", None),
    exceptions.PermissionDenied: ("forbidden", None),
    exceptions.NotFound: ("not_found", None),
    exceptions.MethodNotAllowed: ("method_not_allowed", None),
    exceptions.NotAcceptable: ("not_acceptable", "Only JSON is answered here."),
    exceptions.UnsupportedMediaType: ("unsupported_media_type", "Send JSON with `Content-Type: application/json`."),
    exceptions.Throttled: ("throttled", None),
}


def body(code: str, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the error shape."""
    return {"error": {"code": code, "message": message, "details": dict(details or {})}}


def exception_handler(error: Exception, context: Mapping[str, Any]) -> Response:
    """Returns the answer for whatever a view raised; what nobody expected is logged and is a plain 500."""
    if isinstance(error, RefusedError):
        return _refused(error)
    if isinstance(error, exceptions.ValidationError):
        return _invalid(error)
    if isinstance(error, Http404):
        error = exceptions.NotFound("There is nothing at this address.")
    if isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if isinstance(error, exceptions.APIException):
        return _expected(error)
    if isinstance(error, OperationalError | InterfaceError | redis.RedisError):
        logger.error("a store does not answer: %s", error)
        message = "The database or the message store does not answer at the moment."
        return Response(body("unavailable", message), status=503, headers={"Retry-After": "5"})
    logger.error("%s failed", type(context.get("view")).__name__, exc_info=error)
    return Response(body("internal", _INTERNAL), status=500)


_INTERNAL = "Something went wrong here. The log of the console says what."


def not_found(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    """Answers an address that no pattern matches."""
    details = {"hint": "/api/schema/ describes every address."}
    return JsonResponse(body("not_found", "There is nothing at this address.", details), status=404)


def server_error(request: HttpRequest) -> JsonResponse:
    """Answers when something outside a view of REST failed."""
    return JsonResponse(body("internal", _INTERNAL), status=500)


def _refused(error: RefusedError) -> Response:
    details: dict[str, Any] = {"hint": error.hint} if error.hint else {}
    details |= {"fields": error.fields} if error.kind == "invalid" else error.fields
    status = 412 if error.code == CHANGED_MEANWHILE else STATUS[error.kind]
    return Response(body(error.code, error.message, details), status=status)


def _invalid(error: exceptions.ValidationError) -> Response:
    fields = dict(_flat("", error.detail))
    names = ", ".join(name for name in fields if name)
    message = f"This can't be used: {names}." if names else next(iter(fields.values()), "This can't be used.")
    return Response(body("invalid", message, {"fields": fields}), status=400)


def _flat(name: str, detail: Any) -> list[tuple[str, str]]:
    """Returns (dotted name of the field, sentence) for DRF's nested lists and dicts."""
    if isinstance(detail, Mapping):
        parts = [
            (name if key == "non_field_errors" else f"{name}.{key}".strip("."), part) for key, part in detail.items()
        ]
        return [pair for key, part in parts for pair in _flat(key, part)]
    if isinstance(detail, Sequence) and not isinstance(detail, str):
        if all(isinstance(part, str) for part in detail):
            return [(name, " ".join(detail))]
        return [pair for index, part in enumerate(detail) for pair in _flat(f"{name}.{index}".strip("."), part)]
    return [(name, str(detail))]


def _expected(error: exceptions.APIException) -> Response:
    code, sentence = _CODES.get(type(error), (str(error.default_code), None))
    headers = {}
    if auth_header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    wait = getattr(error, "wait", None)
    if wait is not None:
        headers["Retry-After"] = str(int(wait))
    return Response(body(code, sentence or str(error.detail)), status=error.status_code, headers=headers)
