"""How names stand in URLs. Registered here once; what can't be a name is a 404 before any look-up."""

from __future__ import annotations

from django.urls import register_converter


class NameConverter:
    """A name or an identifier: letters, digits and some punctuation, never a slash."""

    regex = r"[A-Za-z0-9][A-Za-z0-9.:,@+_-]{0,149}"

    def to_python(self, value: str) -> str:
        """Returns the name."""
        return value

    def to_url(self, value: str) -> str:
        """Returns the name as it stands in a URL."""
        return value


class NumberConverter:
    """A row number that PostgreSQL can hold."""

    regex = r"[0-9]{1,18}"

    def to_python(self, value: str) -> int:
        """Returns the number."""
        return int(value)

    def to_url(self, value: int) -> str:
        """Returns the number as it stands in a URL."""
        return str(value)


register_converter(NameConverter, "name")
register_converter(NumberConverter, "number")
