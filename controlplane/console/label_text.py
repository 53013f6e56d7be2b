"""Labels as people write them: name=value, with commas in between."""

from __future__ import annotations

from django.utils.translation import gettext as _

from controlplane.domain.errors import RefusedError


def read(text: str, field: str) -> dict[str, str]:
    """Returns the labels; refuses, at the field, what is none."""
    found: dict[str, str] = {}
    for piece in (one.strip() for one in text.split(",") if one.strip()):
        name, equals, value = (one.strip() for one in piece.partition("="))
        wrong = "" if equals else _("Write labels as name=value, with commas in between.")
        if name in found:
            wrong = _("%(name)s stands there twice.") % {"name": name}
        if wrong:
            raise RefusedError("invalid", wrong, fields={field: wrong})
        found[name] = value
    return found
