"""The lock on an engine's port: loaded by vLLM as `--middleware`, in the engine's own environment.

Guarantees
    No request reaches the engine but the paths in `SERVED` with the replica's key, and the paths in `OPEN`.
    Everything else is refused here: other paths (vLLM has some that generate text or change the engine and that its
    own `--api-key` does not cover), other methods, websockets. Without a key in the environment it does not start.
Does not do
    Limits, accounting, logging: that is the gateway's work. It never logs, and the key is nowhere but in memory.

It must import nothing but the standard library, whatever version of vLLM or Python loads it.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

KEY_VARIABLE = "HEADWORKS_REPLICA_KEY"

# path -> methods that reach the engine with the key
SERVED = {
    "/v1/chat/completions": ("POST",),
    "/v1/completions": ("POST",),
    "/v1/embeddings": ("POST",),
    "/v1/models": ("GET",),
}
# path -> methods that reach the engine without a key: the node's own probes
OPEN = {"/health": ("GET",), "/metrics": ("GET",)}


class Guard:
    """ASGI middleware around the whole of an engine's application."""

    def __init__(self, app: Application, key: str | None = None) -> None:
        key = os.environ.get(KEY_VARIABLE, "") if key is None else key
        if not key:
            raise RuntimeError(f"{KEY_VARIABLE} is not set: an engine without a key would be open to everybody.")
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await _close_websocket(receive, send)
            return
        refusal = decide(scope["method"], scope["path"], self._has_key(scope))
        if refusal is None:
            await self._app(scope, receive, send)
            return
        await _answer(send, *refusal)

    def _has_key(self, scope: MutableMapping[str, Any]) -> bool:
        for name, value in scope["headers"]:
            if name == b"authorization":
                scheme, _, secret = value.partition(b" ")
                return bool(scheme.lower() == b"bearer" and hmac.compare_digest(secret.strip(), self._key))
        return False


def decide(method: str, path: str, has_key: bool) -> tuple[int, str, str] | None:
    """Returns None when the request may pass, else (status, code, sentence). Paths are compared as they are."""
    if method in OPEN.get(path, ()):
        return None
    if not has_key:
        return 401, "invalid_api_key", "This engine answers to the Headworks gateway only."
    if path not in SERVED and path not in OPEN:
        return 404, "not_served", "This path is not served here."
    if method not in SERVED.get(path, ()):
        return 405, "method_not_allowed", "This method is not served here."
    return None


async def _answer(send: Send, status: int, code: str, message: str) -> None:
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _close_websocket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008, "reason": "Not served here."})
