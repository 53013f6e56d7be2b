"""Takes secrets out of an engine's output before it leaves its node: known ones, and whatever looks like one."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "•••"
# keys as Headworks and others write them, and whatever follows "Bearer" or stands behind an obvious name
_SECRETS = re.compile(
    r"\b(?:hw|hwr|hwt|sk|hf)[-_][A-Za-z0-9_\-]{16,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=\-]{8,}"
    r"|(?i:(?<=api_key=)|(?<=api-key=)|(?<=token=)|(?<=password=))[^\s&'\",)]{4,}"
)


def mask(line: str, secrets: Iterable[str] = ()) -> str:
    """Returns a line with the given secrets, and whatever looks like one, replaced."""
    for secret in secrets:
        if secret and secret in line:
            line = line.replace(secret, MASK)
    return _SECRETS.sub(MASK, line)
