"""Parts that serializers are made of: they take exactly the JSON type they name, and only the fields they name."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api import pagination


class StrictSerializer(serializers.Serializer[Any]):
    """A body or a query whose unknown fields are errors that name them.

    Fields that only answers have (those of `answer`) are accepted and ignored, so that what was read can be edited and
    sent back as it is.
    """

    answer: ClassVar[type[serializers.Serializer[Any]] | None] = None

    def to_internal_value(self, data: Any) -> Any:
        """Returns the values; raises ValidationError for wrong ones and for unknown fields."""
        if isinstance(data, Mapping):
            known = [name for name, field in self.fields.items() if not field.read_only]
            shown = self.answer().fields if self.answer else {}
            unknown = {name: [_unknown(name, known)] for name in data if name not in known and name not in shown}
            if unknown:
                raise serializers.ValidationError(unknown)
        return super().to_internal_value(data)


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"There is no such field; did you mean {close[0]}?"
    return f"There is no such field; there are {', '.join(known)}." if known else "No fields are expected here."


class NothingSerializer(StrictSerializer):
    """An empty body."""


class PageQuery(StrictSerializer):
    """What every list takes."""

    limit = serializers.IntegerField(
        default=pagination.DEFAULT_LIMIT, min_value=1, max_value=pagination.LARGEST_LIMIT, help_text="Rows in a page."
    )
    cursor = serializers.CharField(
        required=False, max_length=2000, help_text="Where the page starts: as in `next` or `previous` of another page."
    )


class Text(serializers.CharField):
    """A JSON string."""

    def to_internal_value(self, data: Any) -> str:
        """Returns the string."""
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    """A JSON number without a fraction."""

    def to_internal_value(self, data: Any) -> int:
        """Returns the number."""
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return super().to_internal_value(data)


class Real(serializers.FloatField):
    """A JSON number."""

    def to_internal_value(self, data: Any) -> float:
        """Returns the number."""
        if isinstance(data, bool) or not isinstance(data, int | float) or not abs(data) <= sys.float_info.max:
            self.fail("invalid")
        return float(data)


class Truth(serializers.BooleanField):
    """JSON true or false."""

    def to_internal_value(self, data: Any) -> bool:
        """Returns the truth value."""
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Words(serializers.ChoiceField):
    """One of some words, in a query or as a JSON string; what is none of them is told which there are."""

    def to_internal_value(self, data: Any) -> Any:
        """Returns the word."""
        known = [*self.choices, *([""] if self.allow_blank and "" not in self.choices else [])]
        if not isinstance(data, str) or data not in known:
            raise serializers.ValidationError("Use one of " + ", ".join(str(word) or '""' for word in known) + ".")
        return super().to_internal_value(data)


@extend_schema_field(OpenApiTypes.OBJECT)
class Facts(serializers.DictField):
    """A JSON object whose content is not prescribed."""


@extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}})
class Labels(serializers.Field[Any, Any, Any, Any]):
    """Names with values, both strings."""

    default_error_messages = {"object": "Give an object of labels: a string for each name."}

    def to_internal_value(self, data: Any) -> dict[str, str]:
        """Returns the labels; what a name and a value may be is checked by the service."""
        if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
            self.fail("object")
        return data

    def to_representation(self, value: Any) -> Any:
        """Returns the labels as they are."""
        return value


_SETTING = {"type": ["string", "number", "boolean", "null"]}


@extend_schema_field(_SETTING)
class SettingValueField(serializers.Field[Any, Any, Any, Any]):
    """A string, number, truth value or null; only for answers."""

    def to_representation(self, value: Any) -> Any:
        """Returns the value as it is."""
        return value


@extend_schema_field({"type": "object", "additionalProperties": _SETTING})
class Settings(serializers.Field[Any, Any, Any, Any]):
    """Settings of an engine by name; each a string, number, truth value or null."""

    default_error_messages = {
        "object": "Give an object of settings by name.",
        "value": "{name} must be a string, a number, true, false or null.",
    }

    def to_internal_value(self, data: Any) -> dict[str, str | int | float | bool | None]:
        """Returns the settings by name; their names and ranges are checked by the engine's adapter."""
        if not isinstance(data, dict):
            self.fail("object")
        for name, value in data.items():
            if value is not None and not isinstance(value, str | int | float | bool):
                self.fail("value", name=name[:100])
        return data

    def to_representation(self, value: Any) -> Any:
        """Returns the settings as they are."""
        return value
