"""The head of a request, and those that are known already.

Guarantees
    Only llhttp (through httptools) reads heads. One that a client sends again, byte for byte but for the length of the
    body, means what it meant before and is not read again: an SDK sends the same for its whole life.
Does not do
    Know a head whose body has not come whole in the same piece, is chunked, or asks for another protocol.
"""

from __future__ import annotations

import re
import urllib.parse

import httptools

Headers = list[tuple[bytes, bytes]]

KNOWN_MOST = 1024
KNOWN_LONGEST_BYTES = 4096
KNOWN_MOST_FIELDS = 64  # a thousand short ones would take 30 times the memory of their bytes
_USUAL_PATH = re.compile(rb"/[A-Za-z0-9/_.-]*")
_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,9})\r\n")
_END = b"\r\n\r\n"


class TargetError(Exception):
    """What a request is for is no path."""


class Head:
    """What stands in front of a body. `headers` have lower-case names, and no content-length."""

    __slots__ = (
        "authorization",
        "expects_continue",
        "headers",
        "hops",
        "keep_alive",
        "length",
        "method",
        "path",
        "request_id",
        "version",
    )

    def __init__(self, method: bytes, target: bytes, headers: Headers, version: str, *, keep_alive: bool) -> None:
        """Raises TargetError."""
        self.method = method.decode("ascii")
        self.path = _path(target)
        self.version = version
        self.keep_alive = keep_alive and version != "1.0"
        self.headers: Headers = []
        self.authorization: bytes | None = None
        self.request_id = ""  # the client's own, when it is sane
        self.length: int | None = None
        self.hops = 0  # gateways that it has come through
        self.expects_continue = False
        for name, value in headers:
            if name == b"content-length":
                self.length = int(value)
                continue
            self.headers.append((name, value))
            if name == b"authorization":
                self.authorization = value
            elif name == b"x-request-id" and _SANE_ID.fullmatch(value):
                self.request_id = value.decode()
            elif name == b"x-headworks-hops" and value[:4].isdigit():
                self.hops = int(value[:4])
            elif name == b"expect" and value.lower() == b"100-continue":
                self.expects_continue = True


def _path(target: bytes) -> str:
    if _USUAL_PATH.fullmatch(target):
        return target.decode("ascii")
    try:
        path: bytes | None = httptools.parse_url(target).path
    except httptools.HttpParserInvalidURLError as error:
        raise TargetError from error
    if not path or not path.isascii():
        raise TargetError
    return urllib.parse.unquote(path.decode("ascii"))


def split(data: bytes) -> tuple[bytes, bytes] | None:
    """Returns what may be one whole request with a body as its head, less the length, and its body; None where the data
    is anything else."""
    end = data.find(_END)
    if end < 0 or end > KNOWN_LONGEST_BYTES:
        return None
    found = _LENGTH.search(data, 0, end + 2)
    if found is None:
        return None
    begin, stop = found.span(1)
    body_at = end + 4
    if len(data) - body_at != int(data[begin:stop]):
        return None
    return data[:begin] + data[stop:body_at], data[body_at:]


class KnownHeads:
    """The heads that clients have sent before."""

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def clear(self) -> None:
        """Forgets all."""
        self._heads.clear()

    def find(self, key: bytes) -> Head | None:
        """Returns a head by what `split` has made of it; None where llhttp has to read it."""
        return self._heads.get(key)

    def learn(self, key: bytes, head: Head) -> None:
        """Takes what llhttp has made of a piece that was one whole request and nothing else."""
        if len(head.headers) > KNOWN_MOST_FIELDS:
            return
        if len(self._heads) >= KNOWN_MOST:
            self.clear()  # whoever still comes is soon known again
        head.length = None  # that of each body
        self._heads[key] = head
