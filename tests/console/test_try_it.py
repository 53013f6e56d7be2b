"""Trying a model: from the page through a gateway, here a small real server that speaks as one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient

from controlplane.accounts.models import ApiKey
from controlplane.console import internal_key
from controlplane.lib import ids
from tests.console import making

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

GOOD = [
    {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"content": "Par"}}]},
    {"choices": [{"delta": {"content": "is"}}]},
    {"choices": [], "usage": {"completion_tokens": 2}},
]


class Gateway:
    """Answers like the gateway and remembers what it was asked."""

    def __init__(self, refusals: int = 0, status: int = 401, before: tuple[str, ...] = ()) -> None:
        self._before = before  # events as an endpoint that somebody else runs may send them
        self.heads: list[str] = []
        self.bodies: list[dict[str, object]] = []
        self._refusals = refusals
        self._status = status

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(
            next(line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length"))
        )
        self.heads.append(head)
        self.bodies.append(json.loads(await reader.readexactly(length)))
        if len(self.heads) <= self._refusals:
            body = json.dumps({"error": {"code": "invalid_api_key", "message": "No such key."}}).encode()
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s" % (self._status, len(body), body))
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            lines = [*self._before, *(json.dumps(event) for event in GOOD), "[DONE]"]
            for line in lines:
                chunk = f"data: {line}\n\n".encode()
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def running(gateway: Gateway, settings: object) -> AsyncIterator[None]:
    server = await asyncio.start_server(gateway.serve, "127.0.0.1", 0)
    settings.GATEWAY_INTERNAL_URL = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    async with server:
        yield


@pytest.fixture(autouse=True)
async def closed_connections() -> AsyncIterator[None]:
    """The view's database work happens in a thread of asgiref; its connection would outlive the test database."""
    yield
    await sync_to_async(connections.close_all)()


async def ask(role: str = "operator", language: str = "en", **fields: str) -> tuple[int, list[dict[str, object]]]:
    user = await sync_to_async(making.make_user)("bob", role)
    await sync_to_async(making.make_deployment)("chat")
    client = AsyncClient()
    await client.aforce_login(user)
    client.cookies["django_language"] = language
    response = await client.post("/deployments/chat/try/", {"prompt": "Capital of France?", **fields})
    if not response.streaming:
        return response.status_code, [json.loads(response.content)]
    text = b"".join([part async for part in response.streaming_content]).decode()  # type: ignore[attr-defined]
    return response.status_code, [json.loads(line) for line in text.splitlines()]


async def test_the_answer_streams_with_what_was_measured(settings: object) -> None:
    gateway = Gateway()
    async with running(gateway, settings):
        status, lines = await ask(max_tokens="16")
    assert status == 200 and [line["delta"] for line in lines[:-1]] == ["Par", "is"]
    done = lines[-1]["done"]
    assert isinstance(done, dict) and done["tokens"] == 2 and done["ttft_s"] > 0
    assert (gateway.bodies[0]["model"], gateway.bodies[0]["max_tokens"]) == ("chat", 16)


async def test_the_key_is_the_consoles_own_and_stored_as_a_hash(settings: object) -> None:
    gateway = Gateway()
    async with running(gateway, settings):
        await ask()
    key = await ApiKey.objects.select_related("tenant").aget()
    assert (key.tenant.name, key.key_hash) == ("headworks", ids.secret_hash(internal_key.secret()))
    assert f"Bearer {internal_key.secret()}" in gateway.heads[0]


async def test_a_gateway_that_does_not_know_the_new_key_yet_is_asked_again(settings: object) -> None:
    gateway = Gateway(refusals=1)
    async with running(gateway, settings):
        _, lines = await ask()
    assert len(gateway.heads) == 2 and "done" in lines[-1]


async def test_a_refusal_of_the_gateway_is_shown(settings: object) -> None:
    async with running(Gateway(refusals=9, status=503), settings):
        _, lines = await ask()
    assert lines == [{"error": {"code": "invalid_api_key", "message": "No such key."}}]


async def test_a_gateway_that_is_away_is_one_sentence(settings: object) -> None:
    settings.GATEWAY_INTERNAL_URL = "http://127.0.0.1:9"  # type: ignore[attr-defined]
    _, lines = await ask()
    assert lines[0]["error"]["code"] == "gateway_unreachable"  # type: ignore[index]


async def test_what_the_gateway_says_is_told_in_the_readers_language(settings: object) -> None:
    settings.GATEWAY_INTERNAL_URL = "http://127.0.0.1:9"  # type: ignore[attr-defined]
    _, lines = await ask(language="zh-hans")
    assert lines[0]["error"]["message"] == "无法连接位于 http://127.0.0.1:9 的网关。"  # type: ignore[index]


async def test_events_of_any_shape_are_passed_over(settings: object) -> None:
    odd = (
        "", "{", "[]", "null", "3", '"text"', '{"choices": 3}', '{"choices": [null]}', '{"choices": [[]]}',
        '{"choices": [{"delta": 3}]}', '{"choices": [{"delta": {"content": {"a": 1}}}]}', '{"usage": []}',
        '{"usage": {"completion_tokens": "many"}}', '{"error": null}', "[" * 50_000, '{"a": ' + "[" * 50_000 + "}",
    )  # fmt: skip
    async with running(Gateway(before=odd), settings):
        _, lines = await ask()
    assert [line["delta"] for line in lines[:-1]] == ["Par", "is"]
    assert lines[-1]["done"]["tokens"] == 2  # type: ignore[index]


async def test_an_event_without_end_is_given_up(settings: object) -> None:
    async with running(Gateway(before=("x" * 3_000_000,)), settings):
        _, lines = await ask()
    assert lines[-1]["error"]["code"] == "broken"  # type: ignore[index]


async def test_a_viewer_may_not_and_an_empty_message_is_refused(settings: object) -> None:
    status, lines = await ask("viewer")
    assert (status, lines[0]["error"]["code"]) == (403, "forbidden")  # type: ignore[index]


async def test_an_empty_message_is_refused(settings: object) -> None:
    status, _ = await ask(prompt=" ")
    assert status == 422
