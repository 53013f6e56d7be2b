"""ETags of single resources, and the conditions a request may set with them.

An ETag is `"<version>-<digest>"`: the version of the row, which grows with each change that somebody asked for, and a
digest of what is shown, which also has live state. `If-Match` compares the version alone, so an edit is not refused
because a replica became ready meanwhile; `If-None-Match` compares the whole, so a reader never misses a live change.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from rest_framework.request import Request

NEVER = -1  # a version that no row has
_OURS = re.compile(r'(?:W/)?"(\d{1,10})(?:-[0-9a-f]+)?"')


@dataclass(frozen=True, slots=True)
class Condition:
    """What a writer asks for: a version it has seen (0 = the object must not exist), or that there is any."""

    version: int | None = None
    must_exist: bool = False


def etag(version: int, shown: Any) -> str:
    """Returns the ETag of a resource as it is shown now."""
    text = json.dumps(shown, default=str, sort_keys=True)
    return f'"{version}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"'


def condition(request: Request) -> Condition:
    """Returns the condition of a write; without `If-Match` and `If-None-Match: *` there is none."""
    if_match = request.headers.get("If-Match", "").strip()
    if if_match == "*":
        return Condition(must_exist=True)
    if if_match:
        return Condition(version=version_of(if_match))
    if request.headers.get("If-None-Match", "").strip() == "*":
        return Condition(version=0)
    return Condition()


def version_of(tag: str) -> int:
    """Returns the version in one ETag; a tag that is not one of ours matches nothing."""
    match = _OURS.fullmatch(tag)
    return int(match.group(1)) or NEVER if match else NEVER


def is_known(request: Request, tag: str) -> bool:
    """Returns whether the reader already has what `tag` stands for (`If-None-Match`)."""
    known = [part.strip().removeprefix("W/") for part in request.headers.get("If-None-Match", "").split(",")]
    return tag in known or "*" in known
