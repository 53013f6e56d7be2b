"""Just enough of an HTTP client to send streamed chats to the gateway from one event loop."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from engine_adapters.simulated.demo.plan import CHARACTERS_A_TOKEN, Arrival

TIME_LIMIT_S = 300.0
_QUESTION = "What does the gate do when the water rises? "


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where requests go, and the key that opens it."""

    url: str
    key: str
    tls: ssl.SSLContext | None = None


async def send(gateway: Gateway, arrival: Arrival) -> int:
    """Sends one chat and reads its answer to the end; returns the HTTP status, 0 when the connection broke."""
    parts = urlsplit(gateway.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    tls = gateway.tls if parts.scheme == "https" else None
    try:
        async with asyncio.timeout(TIME_LIMIT_S):
            reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
            try:
                writer.write(_request(gateway, parts.netloc, arrival))
                await writer.drain()
                return await _read(reader, arrival.leaves_after)
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError, IndexError):
        return 0


async def _read(reader: asyncio.StreamReader, leaves_after: int | None) -> int:
    status = int((await reader.readline()).split()[1])
    events = 0
    while line := await reader.readline():
        if line.startswith(b"data: "):
            events += 1
            if leaves_after is not None and events > leaves_after:
                break
    return status


def _request(gateway: Gateway, host: str, arrival: Arrival) -> bytes:
    characters = max(1, arrival.prompt_tokens * CHARACTERS_A_TOKEN)
    content = (_QUESTION * (characters // len(_QUESTION) + 1))[:characters]
    body = json.dumps(
        {
            "model": arrival.deployment,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": arrival.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {gateway.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
