"""Reading request bodies: JSON, at most `LIMIT_BYTES` (a view may take more), nothing that could not be stored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from rest_framework import exceptions, status
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer

LIMIT_BYTES = 1024 * 1024
_LONGEST_NUMBER = 2**63
_DEEPEST = 32


class TooLargeError(exceptions.APIException):
    """The body is larger than the view takes."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(f"The body is larger than {limit_bytes // 1024} KiB.")


class StrictJSONParser(BaseParser):
    """Accepts RFC 8259 JSON in UTF-8; refuses NaN, numbers beyond 64 bits, characters PostgreSQL can't hold, a name
    that appears twice, and deep nesting, each with a sentence."""

    media_type = "application/json"
    renderer_class = JSONRenderer
    limit_bytes = LIMIT_BYTES

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Returns the plain values of the body; raises ParseError or TooLargeError."""
        raw = stream.read(self.limit_bytes + 1)
        if len(raw) > self.limit_bytes:
            raise TooLargeError(self.limit_bytes)
        try:
            value = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise exceptions.ParseError(f"The body is not JSON that can be read: {_first_line(error)}.") from None
        _check(value, 0)
        return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen = dict(pairs)
    if len(seen) != len(pairs):
        raise ValueError("a name appears twice in an object")
    return seen


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["it is nested too deeply"])[0][:200].rstrip(".")


def _check(value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise exceptions.ParseError(f"The body is nested more than {_DEEPEST} levels deep.")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, int | float):
        # whole numbers of any length have no place in a float, so their size is asked first
        if (isinstance(value, float) and not math.isfinite(value)) or abs(value) >= _LONGEST_NUMBER:
            raise exceptions.ParseError("A number in the body is too large.")
    elif isinstance(value, dict):
        for name, part in value.items():
            _check_text(name)
            _check(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _check(part, depth + 1)


def _check_text(text: str) -> None:
    if "\0" in text or (not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise exceptions.ParseError("A text in the body has a character that can't be stored.")
