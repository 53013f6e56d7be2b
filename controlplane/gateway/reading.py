"""Requests as llhttp reads them (through httptools).

Guarantees
    What llhttp refuses is a `NotHttpError`, and so is a head that is too long. Fields behind a chunked body go.
    A wish for another protocol is read as if it had not been made (RFC 9110 7.8; some HTTP clients make it with every
    request). llhttp takes the body of such a request for the other protocol's, and what comes later for a request of
    its own: behind a proxy, one client could answer for another.
"""

from __future__ import annotations

import logging
from typing import Protocol

import httptools

from controlplane.gateway.heads import Head, Headers, TargetError
from controlplane.lib.http_upgrade import without_upgrade

logger = logging.getLogger(__name__)

HEAD_LIMIT_BYTES = 64 * 1024


class NotHttpError(Exception):
    """What has come can't be read, or shall not."""


class Requests(Protocol):
    """Where requests go: a `begin`, any number of `body`, a `complete`. `begin` may raise NotHttpError."""

    def begin(self, head: Head) -> None: ...

    def body(self, data: bytes) -> None: ...

    def complete(self) -> None: ...


class Reader:
    """Reads what comes on one connection. `is_between`: nothing of a request has come that is not whole."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: Headers = []
        self._size = 0  # of the head that is being read
        self._is_declined = False
        self.is_between = True
        self.in_head = True  # or before the first one
        self.unread_bytes = 0  # what has come of a head, or of fields behind a body, that is not whole

    def feed(self, data: bytes) -> None:
        """Reads a piece; raises NotHttpError."""
        self.unread_bytes += len(data)
        try:
            while data:
                data = self._feed(data)
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, (NotHttpError, TargetError)):
                logger.exception("a request could not be taken")
            raise NotHttpError from error
        except httptools.HttpParserError as error:
            raise NotHttpError from error
        if self.is_between:
            self.unread_bytes = 0
        elif self.unread_bytes > HEAD_LIMIT_BYTES:
            raise NotHttpError

    def _feed(self, data: bytes) -> bytes:
        """Gives the parser some data; returns what is to be given to it next."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            return self._without_upgrade() + data[stopped.args[0] :]
        return b""

    def _without_upgrade(self) -> bytes:
        """Returns the head that was just parsed, but without the wish, for a parser that starts anew."""
        parser, self._parser = self._parser, httptools.HttpRequestParser(self)
        return without_upgrade(parser.get_method(), self._target, parser.get_http_version(), self._headers)

    # -- what the parser calls -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._target, self._headers, self._size = b"", [], 0
        self.in_head, self.is_between, self._is_declined = True, False, False
        self.unread_bytes = 0  # what this piece has brought before belongs to another request

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._grow(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_head:
            self._headers.append((name.lower(), value))
            self._grow(len(name) + len(value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        method = parser.get_method()
        if parser.should_upgrade() and method != b"CONNECT":  # whose target is no path
            self._is_declined = True
            return
        self.in_head, self.unread_bytes = False, 0
        keep_alive = parser.should_keep_alive()
        self._requests.begin(
            Head(method, self._target, self._headers, parser.get_http_version(), keep_alive=keep_alive)
        )

    def on_body(self, data: bytes) -> None:
        self.unread_bytes = 0
        self._requests.body(data)

    def on_message_complete(self) -> None:
        if not self._is_declined:
            self.is_between = True
            self._requests.complete()

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > HEAD_LIMIT_BYTES:
            raise NotHttpError
