"""The OpenAI surface of a simulated engine as a plain ASGI application. It stands behind the same guard as vLLM."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import MutableMapping
from typing import Any

from engine_adapters.simulated.server import text
from engine_adapters.simulated.server.driver import Driver, TokenStream
from engine_adapters.simulated.server.exposition import render
from engine_adapters.vllm.server.guard import Receive, Send

MAX_BODY_BYTES = 64 * 1024**2
DEFAULT_OUTPUT_TOKENS = 128  # when a request has no limit, the answer ends by itself here
JSON_TYPE = (b"content-type", b"application/json")
TEXT_TYPE = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
EVENT_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")


class RequestError(Exception):
    """The request can't be served: status, type and sentence as vLLM answers them."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind


class App:
    """Serves one replica."""

    def __init__(self, driver: Driver, model: str, dies_on_first_generation: bool = False) -> None:
        self._driver = driver
        self._model = model
        self._dies = dies_on_first_generation

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        try:
            await self._route(scope["path"], receive, send)
        except RequestError as error:
            body = {"message": error.message, "type": error.kind, "param": None, "code": error.status}
            await _send_json(send, {"error": body}, error.status)

    async def _route(self, path: str, receive: Receive, send: Send) -> None:
        if path == "/health":
            await _send(send, 200, b"", JSON_TYPE)
        elif path == "/metrics":
            await _send(send, 200, render(self._driver.engine, self._driver.recorder, self._model).encode(), TEXT_TYPE)
        elif path == "/v1/models":
            await _send_json(send, {"object": "list", "data": [self._model_card()]})
        elif path == "/v1/chat/completions":
            await self._complete(receive, send, chat=True)
        elif path == "/v1/completions":
            await self._complete(receive, send, chat=False)
        else:
            raise RequestError(404, "This simulated engine does not serve this path.", "NotFoundError")

    def _model_card(self) -> dict[str, Any]:
        return {
            "id": self._model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "headworks-simulated",
            "root": self._model,
            "parent": None,
            "max_model_len": self._driver.engine.profile.max_model_len,
        }

    async def _complete(self, receive: Receive, send: Send, *, chat: bool) -> None:
        body = _parse(await _read_body(receive))
        if body.get("model", self._model) != self._model:
            raise RequestError(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
        if body.get("n", 1) != 1:
            raise RequestError(400, "This simulated engine gives one choice a request.")
        prompt = text.count_messages(body.get("messages")) if chat else text.count_prompt(body.get("prompt"))
        if prompt is None:
            raise RequestError(400, "messages: a list of messages" if chat else "prompt: a text or a list of token ids")
        if self._dies:
            print("simulated engine: dies on its first generation, as it was told to", flush=True)
            os._exit(1)
        limit = _limit_of(body, chat)
        room = self._driver.engine.profile.max_model_len - prompt
        output = limit or max(1, min(DEFAULT_OUTPUT_TOKENS, room))
        answer = _Answer(self._model, chat, prompt, "stop" if limit is None else "length")
        stream = self._driver.submit(answer.id, prompt, output)
        if stream.rejected:
            raise RequestError(400, stream.rejected)
        watch = asyncio.ensure_future(self._abort_on_disconnect(receive, answer.id))
        try:
            if body.get("stream"):
                options = body.get("stream_options") or {}
                await _send_stream(send, stream, answer, bool(options.get("include_usage")))
            else:
                count = await stream.finish()
                await _send_json(send, answer.whole(count))
            if limit is None and stream.tokens == output:
                self._driver.recorder.stopped += 1
        finally:
            watch.cancel()
            self._driver.abort(answer.id)

    async def _abort_on_disconnect(self, receive: Receive, request_id: str) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._driver.abort(request_id)


class _Answer:
    """The shapes of one answer: whole, or chunk by chunk."""

    def __init__(self, model: str, chat: bool, prompt_tokens: int, finish_reason: str) -> None:
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        self._chat = chat
        self._finish_reason = finish_reason
        self._prompt_tokens = prompt_tokens
        self._head = {"id": self.id, "created": int(time.time()), "model": model}

    def whole(self, count: int) -> dict[str, Any]:
        answer = text.words(0, count)
        content = {"message": {"role": "assistant", "content": answer}} if self._chat else {"text": answer}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": self._finish_reason}
        kind = "chat.completion" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": [choice], "usage": self.usage(count)}

    def opening(self) -> dict[str, Any] | None:
        return self._chunk({"delta": {"role": "assistant", "content": ""}}, None) if self._chat else None

    def piece(self, start: int, count: int, *, last: bool) -> dict[str, Any]:
        answer = text.words(start, count)
        content = {"delta": {"content": answer}} if self._chat else {"text": answer}
        return self._chunk(content, self._finish_reason if last else None)

    def closing(self, count: int) -> dict[str, Any]:
        return {**self._chunk({}, None), "choices": [], "usage": self.usage(count)}

    def usage(self, count: int) -> dict[str, int]:
        total = self._prompt_tokens + count
        return {"prompt_tokens": self._prompt_tokens, "total_tokens": total, "completion_tokens": count}

    def _chunk(self, content: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head, "object": kind, "choices": [choice]}


def _limit_of(body: dict[str, Any], chat: bool) -> int | None:
    limit = body.get("max_completion_tokens") if chat else None
    if limit is None:
        limit = body.get("max_tokens")
    if limit is None:
        return None
    if type(limit) is not int or limit < 1:
        raise RequestError(400, f"max_tokens must be at least 1, got {limit!r}.")
    return limit


async def _send_stream(send: Send, stream: TokenStream, answer: _Answer, with_usage: bool) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [EVENT_TYPE]})
    opening = answer.opening()
    if opening is not None:
        await _send_event(send, opening)
    sent = 0
    while count := await stream.take():
        await _send_event(send, answer.piece(sent, count, last=stream.done and sent + count == stream.tokens))
        sent += count
    if with_usage:
        await _send_event(send, answer.closing(sent))
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _send_event(send: Send, event: dict[str, Any]) -> None:
    body = b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"
    await send({"type": "http.response.body", "body": body, "more_body": True})


def _parse(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        raise RequestError(400, "The body is no JSON.") from None
    if not isinstance(parsed, dict):
        raise RequestError(400, "The body is no JSON object.")
    return parsed


async def _read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise RequestError(400, "The client left before its request was whole.")
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise RequestError(413, "The body is too large.")
        if not event.get("more_body"):
            return b"".join(parts)


async def _send_json(send: Send, value: dict[str, Any], status: int = 200) -> None:
    await _send(send, status, json.dumps(value).encode(), JSON_TYPE)


async def _send(send: Send, status: int, body: bytes, content_type: tuple[bytes, bytes]) -> None:
    headers = [content_type, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
