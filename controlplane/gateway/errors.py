"""Refusals of the gateway in OpenAI's error shape."""

from __future__ import annotations

import math
from http import HTTPStatus

import msgspec

from controlplane.domain.quotas.answers import QuotaRefusal
from controlplane.domain.routing import SNAPSHOT_EVERY_S
from controlplane.gateway.client import Client, Headers
from controlplane.lib.upstream_connection import UpstreamError

MOST_SAID = 2000


class _Error(msgspec.Struct):
    message: str
    code: int
    type: str | None = None
    param: str | None = None


class _Told(msgspec.Struct):
    error: _Error


_told_decoder = msgspec.json.Decoder(_Told, strict=False)  # some write the status as text


class GatewayError(Exception):
    """An answer that is not the engine's. `code` is searchable, `message` says what to do about it."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: int | None = None,
        headers: Headers | None = None,
        close: bool = False,
        kind: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        self.headers: Headers = headers or []
        self.close = close  # the connection can't be used for another request
        self.kind = kind  # the field `type`, where it is not that of the status

    def body(self) -> bytes:
        """Returns `{"error": {"message", "type", "param", "code"}}`."""
        is_clients = self.status < HTTPStatus.INTERNAL_SERVER_ERROR and self.code != "overloaded"
        kind = "invalid_request_error" if is_clients else "server_error"
        error = {"message": self.message, "type": self.kind or kind, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})

    def event(self) -> bytes:
        """Returns the error as an event of a stream."""
        return b"data: " + self.body() + b"\n\n"

    def send(self, client: Client, request_id: str) -> None:
        """Answers with this error."""
        body, name = self.body(), request_id.encode()
        headers: Headers = [
            (b"content-type", b"application/json"),
            (b"x-request-id", name),
            (b"x-headworks-request-id", name),
            *self.headers,
        ]
        if self.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after_s))
        client.start(self.status, headers, len(body), close=self.close)
        client.end(body)


def no_snapshot(why: str) -> GatewayError:
    return GatewayError(503, "no_snapshot", why, retry_after_s=2)


def invalid_key(what: str) -> GatewayError:
    return GatewayError(401, "invalid_api_key", what, headers=[(b"www-authenticate", b"Bearer")])


def unknown_model(name: str) -> GatewayError:
    text = f"The model `{name}` does not exist or this key may not use it. GET /v1/models lists what it may use."
    return GatewayError(404, "model_not_found", text, param="model")


def quota_exceeded(refusal: QuotaRefusal, headers: Headers) -> GatewayError:
    return GatewayError(
        429, "quota_exceeded", refusal.why, retry_after_s=refusal.retry_after_s, headers=headers, kind=refusal.code
    )


def shed(name: str, why: str, status: int, retry_after_s: int) -> GatewayError:
    text = f"`{name}` has more to do than it can. {why} Try again in {retry_after_s} s."
    headers: Headers = [(b"x-headworks-degraded", b"shed")]
    return GatewayError(status, "overloaded", text, retry_after_s=retry_after_s, headers=headers)


def loop(hops: int) -> GatewayError:
    text = (
        f"This request has come through {hops} gateways. An external endpoint leads back to this one: see its address."
    )
    return GatewayError(508, "loop_detected", text)


def stopped(name: str) -> GatewayError:
    text = f"`{name}` is stopped. Somebody has to start it; trying again does not."
    return GatewayError(503, "no_replica", text, retry_after_s=60)


def no_replica(name: str, ready_in_s: int | None) -> GatewayError:
    """`ready_in_s` None = nobody knows; then whatever changes is known here with one of the next snapshots."""
    if ready_in_s is None:
        text = f"No replica of `{name}` is ready. Try again; the deployment's page says what its replicas wait for."
        return GatewayError(503, "no_replica", text, retry_after_s=math.ceil(SNAPSHOT_EVERY_S))
    text = f"No replica of `{name}` is ready. One is starting and is expected in about {ready_in_s} s."
    return GatewayError(503, "no_replica", text, retry_after_s=ready_in_s)


def unreachable(name: str, rests_s: float) -> GatewayError:
    """`rests_s`: so long is left alone what refused last; it grows while nothing takes a connection."""
    text = f"No replica of `{name}` took the connection; they may just have ended. Try again."
    return GatewayError(503, "no_replica", text, retry_after_s=max(1, math.ceil(rests_s)))


def too_large(limit_bytes: int, *, close: bool = False) -> GatewayError:
    text = f"The request body is longer than {limit_bytes} bytes."
    return GatewayError(413, "request_too_large", text, close=close)


def bad_gateway(what: str) -> GatewayError:
    return GatewayError(502, "upstream_failed", what)


def engine_died() -> GatewayError:
    text = "The engine of the replica ended while it worked on the request. It is started again by itself; try again."
    return bad_gateway(text)


def in_openai_shape(status: int, body: bytes) -> GatewayError | None:
    """Returns an error in OpenAI's shape for an answer that has another one; None where it has that shape."""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        answer = None
    if isinstance(answer, dict):
        if isinstance(answer.get("error"), dict) and "message" in answer["error"]:
            return None
        said = next((answer[name] for name in ("detail", "message", "error") if isinstance(answer.get(name), str)), "")
    else:
        said = body.decode(errors="replace") if len(body) < MOST_SAID else ""
    if status == HTTPStatus.NOT_FOUND:
        return GatewayError(404, "not_supported", "The engine of this model has no such address: it can't do this.")
    said = " ".join(said.split()).rstrip(".")
    text = f"The replica answered with status {status} and gave no reason."
    if said:
        text = f"The replica answered with status {status}: {said}."
    return GatewayError(status, "upstream_error", text)


def told_by_event(data: bytes) -> GatewayError | None:
    """Returns the error that a stream begins with, where that says by a status what it is; None else. The head of the
    stream is not out yet, so the client can have the status too."""
    line, end, _ = data.partition(b"\n")
    if not end or not line.startswith(b"data:"):
        return None
    try:
        told = _told_decoder.decode(line[5:]).error
    except msgspec.DecodeError:
        return None
    if not 400 <= told.code <= 599:
        return None
    return GatewayError(told.code, "upstream_error", told.message, param=told.param, kind=told.type or "")


def failed(error: UpstreamError) -> GatewayError:
    """Returns what a client is told of a replica that gave no answer."""
    return bad_gateway(f"The replica gave no answer: {error.message}")


def stopping() -> GatewayError:
    return GatewayError(503, "gateway_stopping", "The gateway is being stopped. Try again.", retry_after_s=1)


def timed_out(after_s: float) -> GatewayError:
    text = f"The request was ended after {after_s:.0f} s, the most for its tier and its number of tokens."
    return GatewayError(504, "request_timeout", text)
