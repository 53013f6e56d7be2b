"""Takes secrets out of text before it leaves the machine: known ones, and whatever looks like one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from controlplane.lib import masking as lines

MASK = "«hidden»"
SHORTEST = 6  # a shorter "secret" would blot out ordinary words
_SECRET_NAME = re.compile(
    r"(?i)(pass(word)?|secret|token|api_?key|gateway_key|^key$|_key$|credential|authorization|cookie)"
)
_NOT_SECRET = re.compile(r"(?i)(_file$|^max_|_tokens$|tokens_|token_id)")
_PATTERNS = (
    re.compile(r"\bhw[a-z]{0,2}-[A-Za-z0-9_-]{16,}"),  # keys and tokens of Headworks
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"),  # user:password in an address
    re.compile(r"(?i)(?<=password=)[^\s&'\"]+"),
)


def is_secret_name(name: str) -> bool:
    """Returns whether a setting or field of this name holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET.search(name)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """Returns the text without the given secrets and without what looks like one."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, MASK)
    for pattern in _PATTERNS:
        text = pattern.sub(MASK, text)
    return lines.mask(text)  # what engines are known to print: their logs lie on the disk as they wrote them


def without_secrets(value: Any) -> Any:
    """Returns a JSON value in which every field with a secret's name is hidden."""
    if isinstance(value, dict):
        return {
            name: MASK if is_secret_name(str(name)) and isinstance(field, str) and field else without_secrets(field)
            for name, field in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    return value


def secrets_in(value: Any) -> Iterator[str]:
    """Yields every text that stands in a field with a secret's name."""
    if isinstance(value, dict):
        for name, field in value.items():
            if isinstance(field, str) and is_secret_name(str(name)):
                yield field
            else:
                yield from secrets_in(field)
    elif isinstance(value, list):
        for item in value:
            yield from secrets_in(item)


def known_secrets(home: Path, environ: Mapping[str, str]) -> set[str]:
    """Returns every secret that this installation keeps in files and that the environment holds."""
    found: set[str] = set()
    for path in [home / "first-run.json", *home.glob("node/**/*.json"), *home.glob("gateway/**/*.json")]:
        try:
            found.update(secrets_in(json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError):
            continue
    files = [home / "secret-key", *(Path(value) for name, value in environ.items() if name.endswith("_FILE"))]
    for path in files:
        try:
            found.add(path.read_text(encoding="utf-8").strip())
        except (OSError, ValueError):
            continue
    found.update(value for name, value in environ.items() if is_secret_name(name))
    return {secret for secret in found if len(secret) >= SHORTEST}
