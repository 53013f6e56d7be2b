"""Pictures, sounds and films in a request: what an engine would fetch, keep under a client's name, or unpack.

Addresses: an engine fetches them, from inside our network. What is sent along (`data:` addresses) passes. Every other
address must be http(s) at an allowed domain, and be written plainly: what two parsers may read differently (a name
before `@`, a backslash, a space) is refused.

Cache keys: vLLM keeps what it made of a picture under the `uuid` beside it, for all tenants. Who names another's would
be answered about that one's picture, or have others answered about its own; so they are taken out.

Tensors (`image_embeds` and the like) are refused: they are memory that the engine unpacks and trusts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

ANY = "*"
FIELDS = ("messages", "input", "prompt")  # of a request's body, that may hold media
_PLAIN_NAMES = frozenset({"image", "audio", "video", "file"})  # some hold an address, most hold data
CACHE_KEY = "uuid"
_TENSORS = ("image_embeds", "audio_embeds", "video_embeds", "prompt_embeds")
_DEEPEST = 32
_HTTP = re.compile(r"https?://([A-Za-z0-9.-]+)(:\d{1,5})?([/?#][!-\[\]-~]*)?")


@dataclass(frozen=True, slots=True)
class Refused:
    """`param` is where it stands, as in `messages[0].content[1].image_url`."""

    param: str
    why: str


def may_be_held(body: bytes) -> bool:
    """Returns whether a look into a body is worth its time; characters may be written as escapes."""
    if b"_url" in body or b"://" in body or b"uuid" in body or b"_embeds" in body:
        return True
    return b"\\" in body and (b"\\u" in body or b"\\/" in body)


def refused(value: object, param: str, domains: Collection[str]) -> Refused | None:
    """Returns the first thing in a field's value that an engine must not fetch or unpack. `domains` are names of hosts;
    one that begins with a dot stands for all hosts below it, `*` for any."""
    for where, name, one in _items(value, param, 0):
        if name in _TENSORS or (name == "type" and one in _TENSORS):
            return Refused(where, "Tensors can't be sent; send the picture, sound or film itself.")
        url = _url(name, one)
        if url is None or url[:5].lower() == "data:":
            continue
        match = _HTTP.fullmatch(url)
        if match is None:
            return Refused(where, "Only http(s) addresses, written plainly, and data: addresses can be used here.")
        if not _is_allowed(match[1].lower(), domains):
            return Refused(where, f"Media from {match[1]} may not be fetched; send it as a data: address.")
    return None


def take_out_cache_keys(value: object, depth: int = 0) -> bool:
    """Takes the cache keys of media out of a field's value, in place; returns whether there was any."""
    if depth > _DEEPEST:
        return False
    found = False
    if isinstance(value, list):
        for one in value:
            found |= take_out_cache_keys(one, depth + 1)
    elif isinstance(value, dict):
        parts = value.get("content")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and CACHE_KEY in part:
                del part[CACHE_KEY]
                found = True
        for one in value.values():
            found |= take_out_cache_keys(one, depth + 1)
    return found


def _is_allowed(host: str, domains: Collection[str]) -> bool:
    return any(one in (ANY, host) or (one.startswith(".") and host.endswith(one)) for one in map(str.lower, domains))


def _url(name: str, value: object) -> str | None:
    found = value.get("url") if isinstance(value, dict) else value
    if isinstance(found, str) and (name.endswith("_url") or (name in _PLAIN_NAMES and "://" in found)):
        return found
    return None


def _items(value: object, param: str, depth: int) -> Iterator[tuple[str, str, object]]:
    """Yields where each named value stands, its name, and itself."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from _items(one, f"{param}[{place}]", depth + 1)
    elif isinstance(value, dict):
        for name, one in value.items():
            where = f"{param}.{name}"
            yield where, name, one
            if isinstance(one, list | dict):
                yield from _items(one, where, depth + 1)
