"""Expected refusals that travel to a person or a program: a code, a sentence, what to do, and which field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

RefusalKind = Literal["invalid", "not_found", "conflict", "forbidden", "unavailable"]


class RefusedError(Exception):
    """Headworks can't do what was asked, and says why. Shown as it is in REST and in the console.

    `kind` decides the HTTP status (400, 404, 409, 403, 503), `fields` maps a field's name to what would be right.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        kind: RefusalKind = "invalid",
        hint: str = "",
        fields: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.kind: RefusalKind = kind
        self.hint = hint
        self.fields = dict(fields or {})
