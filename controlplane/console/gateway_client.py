"""One streamed chat completion from the gateway, for the box in which a model can be tried."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import h11
import msgspec

CONNECT_TIMEOUT_S = 3.0
QUIET_TIMEOUT_S = 120.0
LONGEST_LINE_BYTES = 1024 * 1024


class GatewayError(Exception):
    """The gateway did not answer with a stream; `status` 0 = it could not be reached."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Delta(msgspec.Struct):
    """A piece of one choice's text."""

    content: str | None = None


class Choice(msgspec.Struct):
    """One of the answers asked for."""

    delta: Delta | None = None


class Usage(msgspec.Struct):
    """The engine's own count."""

    completion_tokens: int | None = None


class Broken(msgspec.Struct):
    """Why the stream ends early."""

    message: str = ""
    code: str | int | None = None


class Event(msgspec.Struct):
    """What is read of one event. An endpoint that somebody else runs may send anything; what is not of this shape is
    passed over."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: Broken | None = None


def trust(certificate: str) -> ssl.SSLContext:
    """Returns what the gateway's certificate is checked by: the public roots, or `certificate` and nothing else.

    With a certificate of one's own the name is not compared: the console may reach the gateway under another one.
    """
    if not certificate:
        return ssl.create_default_context()
    context = ssl.create_default_context(cafile=certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the file may hold a leaf that a public authority signed
    context.check_hostname = False
    return context


async def stream(url: str, key: str, body: dict[str, object], *, certificate: str = "") -> AsyncIterator[Event]:
    """Yields the events of `POST /v1/chat/completions`; closing the iterator ends the request in the engine too."""
    parts = urlsplit(url)
    tls = trust(certificate) if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    try:
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(parts.hostname, port, ssl=tls), CONNECT_TIMEOUT_S
        )
    except (OSError, TimeoutError) as error:
        raise GatewayError(0, "gateway_unreachable", f"The gateway at {url} can't be reached.") from error
    try:
        async for event in _exchange(reader, writer, parts.netloc, key, body):
            yield event
    finally:
        writer.close()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, key: str, body: dict[str, object]
) -> AsyncIterator[Event]:
    connection = h11.Connection(h11.CLIENT)
    payload = json.dumps(body).encode()
    headers = [
        ("Host", host), ("Authorization", f"Bearer {key}"), ("Content-Type", "application/json"),
        ("Content-Length", str(len(payload))), ("Connection", "close"),
    ]  # fmt: skip
    request = h11.Request(method="POST", target="/v1/chat/completions", headers=headers)
    writer.write((connection.send(request) or b"") + (connection.send(h11.Data(data=payload)) or b""))
    connection.send(h11.EndOfMessage())
    await writer.drain()
    status, rest, whole = 0, b"", b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await asyncio.wait_for(reader.read(65536), QUIET_TIMEOUT_S))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            if status != 200:
                whole += bytes(event.data)
                continue
            *complete, rest = (rest + bytes(event.data)).split(b"\n")
            if len(rest) > LONGEST_LINE_BYTES:
                raise GatewayError(0, "broken", "An event of the answer is too long.")
            for line in complete:
                if line.startswith(b"data:") and (found := _read(line[5:])) is not None:
                    yield found
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    if status != 200:
        raise _refusal(status, whole)


def _read(data: bytes) -> Event | None:
    try:
        return msgspec.json.decode(data, type=Event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # also the mark [DONE]


def _refusal(status: int, answer: bytes) -> GatewayError:
    try:
        error = json.loads(answer)["error"]
        return GatewayError(status, str(error.get("code") or status), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return GatewayError(status, f"http_{status}", f"The gateway answered with status {status}.")
