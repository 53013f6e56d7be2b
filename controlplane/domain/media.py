"""Addresses of pictures, sounds and films in a request: an engine fetches them, from inside our network.

What is sent along (`data:` addresses) passes. Every other address must be http(s) at an allowed domain, and be written
plainly: what two parsers may read differently (a name before `@`, a backslash, a space) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

ANY = "*"
FIELDS = ("messages", "input", "prompt")  # of a request's body, that may hold media
_PLAIN_NAMES = frozenset({"image", "audio", "video", "file"})  # some hold an address, most hold data
_DEEPEST = 32
_HTTP = re.compile(r"https?://([A-Za-z0-9.-]+)(:\d{1,5})?([/?#][!-\[\]-~]*)?")


@dataclass(frozen=True, slots=True)
class RefusedUrl:
    """`param` is where it stands, as in `messages[0].content[1].image_url`."""

    param: str
    why: str


def may_hold_urls(body: bytes) -> bool:
    """Returns whether a look into a body is worth its time; characters may be written as escapes."""
    if b"_url" in body or b"://" in body:
        return True
    return b"\\" in body and (b"\\u" in body or b"\\/" in body)


def refused_url(value: object, param: str, domains: Collection[str]) -> RefusedUrl | None:
    """Returns the first address in a field's value that an engine must not fetch. `domains` are names of hosts; one
    that begins with a dot stands for all hosts below it, `*` for any."""
    for where, url in _urls(value, param, 0):
        if url[:5].lower() == "data:":
            continue
        match = _HTTP.fullmatch(url)
        if match is None:
            return RefusedUrl(where, "Only http(s) addresses, written plainly, and data: addresses can be used here.")
        if not _is_allowed(match[1].lower(), domains):
            return RefusedUrl(where, f"Media from {match[1]} may not be fetched; send it as a data: address.")
    return None


def _is_allowed(host: str, domains: Collection[str]) -> bool:
    return any(one in (ANY, host) or (one.startswith(".") and host.endswith(one)) for one in map(str.lower, domains))


def _urls(value: object, param: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from _urls(one, f"{param}[{place}]", depth + 1)
    elif isinstance(value, dict):
        for name, one in value.items():
            where = f"{param}.{name}"
            found = one.get("url") if isinstance(one, dict) else one
            if isinstance(found, str) and (name.endswith("_url") or (name in _PLAIN_NAMES and "://" in found)):
                yield where, found
            elif isinstance(one, list | dict):
                yield from _urls(one, where, depth + 1)
