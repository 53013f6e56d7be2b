"""One answer on its way from a replica to the client.

Guarantees
    Nothing reaches the client before the first byte of a usable answer: until then what fails by the replica's doing is
    a clean error, or the client is told nothing where the request goes elsewhere (outcome `elsewhere`). A stream that
    breaks ends with an error event; a plain answer that breaks is a 502, or a cut connection when it is so long that
    its beginning is already out. `outcome` is set exactly once.
Does not do
    Choose, retry, count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Literal

from controlplane.domain.admission.breaker import BACK_PRESSURE, ELSEWHERE, goes_elsewhere
from controlplane.gateway.client import Client, Headers
from controlplane.gateway.errors import GatewayError, bad_gateway, engine_died, in_openai_shape, told_by_event
from controlplane.gateway.plain_answer import PlainAnswer
from controlplane.lib.eager import Signal
from controlplane.lib.plain_usage import usage_of
from controlplane.lib.sse import EventStream
from controlplane.lib.upstream_connection import Connection, UpstreamError
from controlplane.lib.usage import Usage

METADATA = b"metadata"  # where vLLM says what is in vectors that it sends as plain bytes, with their usage
# what an engine that is full leaves out: its own queue is kept short, so there is room when its next request ends
ROOM_SOON = (b"retry-after", b"1")
PASSED_HEADERS = frozenset({b"content-type", b"retry-after", METADATA})
# what vLLM tells its clients when its own worker has died: no text for people who can't see its log
ERROR_EVENT, ENGINE_DIED = b'data: {"error"', b"EngineCore encountered an issue"
PLAIN_CODINGS = (b"", b"identity")

Outcome = Literal["open", "whole", "gone", "broken", "elsewhere"]


class Relay:
    """The sink of one exchange. `status` is what the client got, 0 before it got anything.

    `may_go_elsewhere` is asked when the replica has failed before that; None = it may not. `when_full` has the words
    for an engine that has no room; None = it tells that itself.
    """

    __slots__ = (
        "_client",
        "_connection",
        "_done",
        "_headers",
        "_may_go_elsewhere",
        "_own_headers",
        "_plain",
        "_stream_wanted",
        "_strip_usage",
        "_when_full",
        "at_fault",
        "elsewhere_at",
        "ended_at",
        "events",
        "failure",
        "first_at",
        "outcome",
        "status",
        "upstream_status",
        "waits_for_client",
    )

    def __init__(
        self,
        client: Client,
        own_headers: Headers,
        may_go_elsewhere: Callable[[], bool] | None = None,
        when_full: Callable[[], GatewayError] | None = None,
        *,
        stream: bool,
        strip_usage: bool,
    ) -> None:
        self._client = client
        self._may_go_elsewhere = may_go_elsewhere
        self._when_full = when_full
        self._own_headers = own_headers
        self._stream_wanted = stream
        self._strip_usage = strip_usage
        self._connection: Connection | None = None
        self._done: Signal | None = None
        self._headers: Headers = []
        self._plain = PlainAnswer()
        self.events: EventStream | None = None
        self.waits_for_client = False
        self.upstream_status = 0
        self.status = 0
        self.first_at: float | None = None  # when the first event of a stream came
        self.ended_at = 0.0
        self.outcome: Outcome = "open"
        self.failure: UpstreamError | None = None
        self.elsewhere_at: Collection[int] = ELSEWHERE  # statuses at which it is worth asking elsewhere
        self.at_fault = False  # the replica's answer could not be used, or was its last word

    async def run(self, connection: Connection, request: bytes) -> None:
        """Sends the request and returns when the exchange is over, in whichever way."""
        self._connection = connection
        connection.start(self, request)
        if self.outcome == "open":
            self._done = Signal()
            await self._done

    def usage(self) -> Usage | None:
        """Returns the engine's own count of tokens, None when it gave none."""
        if self.events is not None:
            return self.events.usage
        for name, value in self._headers:
            if name == METADATA:
                return usage_of(value)
        return self._plain.usage() if self.upstream_status < 400 else None

    # -- the replica's side --------------------------------------------------------------------------------------

    def head(self, status: int, headers: Headers) -> None:
        self.upstream_status = status
        if unusable := _why_unusable(status, headers):
            self.at_fault = True
            self._fail(bad_gateway(unusable))
            return
        self._headers = [pair for pair in headers if pair[0] in PASSED_HEADERS]
        if status in BACK_PRESSURE and all(name != b"retry-after" for name, _ in self._headers):
            self._headers.append(ROOM_SOON)
        if self._stream_wanted and status == 200:
            kind = next((value for name, value in self._headers if name == b"content-type"), b"")
            if kind.startswith(b"text/event-stream"):
                self.events = EventStream(self._strip_usage)

    def body(self, data: bytes) -> None:
        events = self.events
        if events is None:
            out = self._plain.take(data)
        else:
            if ERROR_EVENT in data and self._is_error(data):
                return
            out = events.feed(data)
            if self.first_at is None and events.events:
                self.first_at = time.monotonic()
        if not out:
            return
        if not self.status:
            self._start(None)
        if not self._client.write(out):
            self._wait_for_client()

    def end(self) -> None:
        if self.events is not None:
            if not self.status:
                self._start(None)
            self._client.end(self.events.rest())
        elif self.status:
            self._client.end()
        else:
            body = self._plain.whole()
            if self.upstream_status >= 400:
                self._error(body)
                return
            self._start(len(body))
            self._client.end(body)
        self._finish("whole")

    def broken(self, error: UpstreamError) -> None:
        self.failure = error
        if self.status:
            self._break_off(bad_gateway(f"The answer broke off: {error.message}"))
        elif self._goes_elsewhere():
            return
        self._finish("broken")

    # -- the client's side ---------------------------------------------------------------------------------------

    def client_gone(self) -> None:
        """The client has left: the engine's work is aborted by closing its connection."""
        if self.outcome == "open":
            self._abort()
            self._finish("gone")

    def stop(self, error: GatewayError) -> None:
        """Ends the answer from our side with `error`."""
        if self.outcome != "open":
            return
        self._abort()
        if self.status:
            self._break_off(error)
            self._finish("broken")
        else:
            self._answer(error)

    def give_up(self, failure: UpstreamError) -> None:
        """The replica gets nowhere with it: another one is asked where nothing has reached the client."""
        if self.outcome == "open" and not self.status and self._goes_elsewhere():
            self.failure = failure
            self._abort()

    def _is_error(self, data: bytes) -> bool:
        """Deals with an error event, which some engines begin a stream with; returns whether nothing is to be sent."""
        if ENGINE_DIED in data:
            self.at_fault = True
            self._fail(engine_died())
            return True
        told = None if self.status else told_by_event(data)
        if told is None:
            return False
        self.upstream_status = told.status
        self._abort()
        if not (goes_elsewhere(told.status) and self._goes_elsewhere()):
            self._retell(self._full(told.status) or told)
        return True

    def _goes_elsewhere(self) -> bool:
        """Ends the exchange where another replica is to be asked instead."""
        if self._may_go_elsewhere is None or not self._may_go_elsewhere():
            return False
        self._finish("elsewhere")
        return True

    def _fail(self, error: GatewayError) -> None:
        """What the replica says is no answer, and nothing that comes after it is."""
        if self.status or self._may_go_elsewhere is None:
            self.stop(error)
            return
        self._abort()
        if not self._goes_elsewhere():
            self._answer(error)

    def _error(self, body: bytes) -> None:
        """The replica has answered with an error, and the client has got nothing yet."""
        status = self.upstream_status
        if status in self.elsewhere_at and self._goes_elsewhere():
            return
        if status >= 500 and ENGINE_DIED in body:
            self._answer(engine_died())
        elif (told := self._full(status) or in_openai_shape(status, body)) is not None:
            self._retell(told)
        else:
            self._start(len(body))
            self._client.end(body)
            self._finish("whole")

    def _answer(self, error: GatewayError) -> None:
        self.tell(error)
        self._finish("broken")

    def tell(self, error: GatewayError) -> None:
        """Answers with `error`, of which the client learns what it would of any other answer."""
        own = dict(self._own_headers)
        request_id = own.pop(b"x-headworks-request-id")
        del own[b"x-request-id"]
        self.status = error.status
        error.headers += own.items()
        error.send(self._client, request_id.decode())

    def _full(self, status: int) -> GatewayError | None:
        return self._when_full() if status in BACK_PRESSURE and self._when_full is not None else None

    def _retell(self, error: GatewayError) -> None:
        """The replica's own refusal in the shape that clients read."""
        said = [pair for pair in self._headers if pair[0] == b"retry-after"]
        if error.retry_after_s is not None and ROOM_SOON in said:
            said = []
        elif said:
            error.retry_after_s = None
        error.headers += said
        self.tell(error)
        self._finish("whole")

    def _start(self, length: int | None) -> None:
        self.status = self.upstream_status
        self._client.start(self.status, self._headers + self._own_headers, length)

    def _break_off(self, error: GatewayError) -> None:
        if self.events is None:
            self._client.cut()
            return
        begin = b"\n\n" if self.events.inside_event else b""
        self._client.end(begin + error.event())

    def _wait_for_client(self) -> None:
        connection = self._connection
        assert connection is not None
        connection.pause()
        self.waits_for_client = True
        self._client.when_ready(self._client_ready)

    def _client_ready(self) -> None:
        self.waits_for_client = False
        if self.outcome == "open" and self._connection is not None:
            self._connection.resume()

    def _abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    def _finish(self, outcome: Outcome) -> None:
        if self.outcome == "open":
            self.outcome = outcome
            self.ended_at = time.monotonic()
            if self._done is not None:
                self._done.set()


def _why_unusable(status: int, headers: Headers) -> str:
    """Returns what keeps an answer from being passed on: nothing the client can mend, or can read."""
    if status in (401, 403):
        return "The replica did not accept the gateway's key."
    if status in (204, 205) or 300 <= status < 400:
        return f"The replica answered with status {status}, which is no answer. Its address may be another one."
    for name, value in headers:
        if name == b"content-encoding" and value.lower() not in PLAIN_CODINGS:
            return "The replica compressed its answer although the gateway asks for a plain one."
    return ""
