"""What programs see that use the `openai` package: answers, streams, headers, and each refusal as its own class."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from controlplane.domain.admission.tiers import BATCH, INTERACTIVE, STANDARD
from controlplane.domain.routing import RoutedKey
from controlplane.lib.ids import secret_hash
from tests.gateway.conftest import KEY, Running, StartGateway, make_deployment, make_snapshot, until
from tests.gateway.engine import (
    DONE,
    LAST_CHUNK,
    USAGE,
    Engine,
    Peer,
    Request,
    Script,
    answer,
    chunk,
    event,
    head,
)
from tests.gateway.test_admission import is_at_rest, make_held, make_seats
from tests.gateway.test_quotas import make_limited

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "The capital of France?"}]
STREAM_HEAD = head(kind="text/event-stream")


def make_client(gateway: Running, **given: Any) -> openai.AsyncOpenAI:
    fields: dict[str, Any] = {"api_key": KEY, "max_retries": 0, **given}
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", **fields)


@asynccontextmanager
async def talking(
    start_gateway: StartGateway, script: Script = answer, **given: Any
) -> AsyncIterator[tuple[Engine, Running, openai.AsyncOpenAI]]:
    """An engine, the gateway before it, and a client; nothing is held when all is over."""
    async with Engine(script) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        async with make_client(gateway, **given) as client:
            yield engine, gateway, client
        await gateway.until_idle()
        is_at_rest(gateway)


def make_reply(status: str, body: object, more: str = "") -> Script:
    raw = json.dumps(body).encode()

    async def reply(_: Request, peer: Peer) -> None:
        start = head(status=status, length=len(raw)).removesuffix(b"\r\n") + more.encode()
        await peer.send(start + b"\r\n" + raw)

    return reply


# -- answers -----------------------------------------------------------------------------------------------------------


async def test_a_chat_whole_and_streamed(start_gateway: StartGateway) -> None:
    async with talking(start_gateway) as (_, _, client):
        whole = await client.chat.completions.create(model="chat", messages=MESSAGES)
        assert whole.choices[0].message.content == "Paris"
        assert whole.usage is not None and whole.usage.total_tokens == USAGE["total_tokens"]
        stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
        assert [one.choices[0].delta.content async for one in stream] == ["tok0", "tok1", "tok2"]


async def test_the_usage_of_a_stream_comes_to_whom_asked_for_it(start_gateway: StartGateway) -> None:
    async with talking(start_gateway) as (_, _, client):
        stream = await client.chat.completions.create(
            model="chat", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = [one async for one in stream]
    assert [len(one.choices) for one in chunks] == [1, 1, 1, 0]
    assert chunks[-1].usage is not None and chunks[-1].usage.prompt_tokens == USAGE["prompt_tokens"]


async def test_completions_whole_and_streamed(start_gateway: StartGateway) -> None:
    def make_text(text: str) -> dict:
        choice = {"index": 0, "text": text, "finish_reason": None, "logprobs": None}
        return {"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}

    async def complete(request: Request, peer: Peer) -> None:
        assert request.line.startswith("POST /v1/completions ")
        if not request.json.get("stream"):
            await make_reply("200 OK", {**make_text("Paris"), "usage": USAGE})(request, peer)
            return
        pieces = [b"data: " + json.dumps(make_text(one)).encode() + b"\n\n" for one in ("Pa", "ris")]
        await peer.send(STREAM_HEAD, *[chunk(one) for one in (*pieces, DONE)], LAST_CHUNK)

    async with talking(start_gateway, complete) as (_, _, client):
        whole = await client.completions.create(model="chat", prompt="The capital of France is")
        assert whole.choices[0].text == "Paris"
        stream = await client.completions.create(model="chat", prompt="The capital of France is", stream=True)
        assert [one.choices[0].text async for one in stream] == ["Pa", "ris"]


@pytest.mark.parametrize("encoding", ["float", "base64", None])
async def test_embeddings_as_numbers_and_packed(start_gateway: StartGateway, encoding: Any) -> None:
    vector = [0.5, -1.0, 0.25]

    async def embed(request: Request, peer: Peer) -> None:
        packed = base64.b64encode(struct.pack("<3f", *vector)).decode()
        is_packed = request.json.get("encoding_format") == "base64"
        data = [{"object": "embedding", "index": 0, "embedding": packed if is_packed else vector}]
        usage = {"prompt_tokens": 4, "total_tokens": 4}
        await make_reply("200 OK", {"object": "list", "model": "m", "data": data, "usage": usage})(request, peer)

    given = {} if encoding is None else {"encoding_format": encoding}
    async with talking(start_gateway, embed) as (engine, gateway, client):
        got = await client.embeddings.create(model="chat", input=["Paris"], **given)
        assert engine.requests[0].line.startswith("POST /v1/embeddings ")
        if encoding == "base64":  # asked for by hand, it is left as it is
            packed: object = got.data[0].embedding
            assert isinstance(packed, str)
        else:
            assert got.data[0].embedding == vector
        assert got.usage.prompt_tokens == 4
        await gateway.until_idle()
        (used,) = gateway.usage()
        assert used.prompt_tokens == 4


async def test_the_models_that_a_key_may_use(start_gateway: StartGateway) -> None:
    deployments = [make_deployment(name="chat"), make_deployment(name="other")]
    keys = {secret_hash(KEY): RoutedKey("key-1", "tenant-1", "acme", deployments=("chat",))}
    models = {"chat": "chat", "org/chat-7b": "chat", "other": "other"}
    gateway = await start_gateway(make_snapshot(*deployments, keys=keys, models=models))
    async with make_client(gateway) as client:
        assert sorted([one.id async for one in client.models.list()]) == ["chat", "org/chat-7b"]
        assert (await client.models.retrieve("org/chat-7b")).id == "org/chat-7b"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("other")


async def test_headers_are_there_for_whom_wants_them(start_gateway: StartGateway) -> None:
    async with talking(start_gateway) as (_, _, client):
        raw = await client.chat.completions.with_raw_response.create(
            model="chat", messages=MESSAGES, extra_headers={"x-request-id": "mine-1"}, extra_body={"priority": -1}
        )
        assert raw.headers["x-headworks-request-id"] == "mine-1"
        assert (raw.headers["x-headworks-replica"], raw.headers["x-headworks-queue-ms"]) == ("r0", "0")
        assert raw.headers["x-headworks-ignored"] == "priority"
        parsed = raw.parse()
        assert (parsed.choices[0].message.content, parsed._request_id) == ("Paris", "mine-1")
        async with client.chat.completions.with_streaming_response.create(
            model="chat", messages=MESSAGES, stream=True
        ) as response:
            assert response.headers["x-headworks-replica"] == "r0"
            lines = [line async for line in response.iter_lines() if line]
        assert lines[-1] == "data: [DONE]"


async def test_what_the_package_does_not_know_reaches_the_engine(start_gateway: StartGateway) -> None:
    async with talking(start_gateway) as (engine, _, client):
        await client.chat.completions.create(
            model="chat",
            messages=MESSAGES,
            tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            extra_body={"top_k": 3, "chat_template_kwargs": {"enable_thinking": False}},
        )
    asked = engine.requests[0].json
    assert (asked["top_k"], asked["chat_template_kwargs"]) == (3, {"enable_thinking": False})
    assert asked["tools"][0]["function"]["name"] == "f"


async def test_programs_that_wait_in_threads_are_served_too(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))

        def ask() -> list[str | None]:
            base = f"http://127.0.0.1:{gateway.port}/v1"
            with openai.OpenAI(base_url=base, api_key=KEY, max_retries=0) as client:
                stream = client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
                return [one.choices[0].delta.content for one in stream]

        answers = await asyncio.gather(*[asyncio.to_thread(ask) for _ in range(4)])
    assert answers == [["tok0", "tok1", "tok2"]] * 4


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("400 Bad Request", openai.BadRequestError),
        ("404 Not Found", openai.NotFoundError),
        ("422 Unprocessable Entity", openai.UnprocessableEntityError),
        ("500 Internal Server Error", openai.InternalServerError),
    ],
)
async def test_what_an_engine_refuses_has_the_class_of_its_status(
    start_gateway: StartGateway, status: str, kind: type[openai.APIStatusError]
) -> None:
    said = {"error": {"message": "not so", "type": "T", "param": "p", "code": 1}}
    async with talking(start_gateway, make_reply(status, said, "retry-after: 7\r\n")) as (_, _, client):
        for stream in (False, True):
            with pytest.raises(kind) as refused:
                await client.chat.completions.create(model="chat", messages=MESSAGES, stream=stream)
            assert type(refused.value) is kind
            assert refused.value.response.headers["retry-after"] == "7"
            assert (refused.value.status_code, refused.value.param) == (int(status[:3]), "p")
            assert "not so" in refused.value.message


async def test_a_stream_that_begins_with_an_error_is_refused_with_its_status(start_gateway: StartGateway) -> None:
    async def overflow(_: Request, peer: Peer) -> None:
        error = json.dumps({"error": {"message": "too busy", "type": "X", "param": None, "code": 503}}).encode()
        await peer.send(STREAM_HEAD, chunk(b"data: " + error + b"\n\n"), chunk(DONE), LAST_CHUNK)

    async with talking(start_gateway, overflow) as (_, _, client):
        with pytest.raises(openai.InternalServerError, match="has more to do than it can"):
            await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)


async def test_the_gateways_own_refusals(start_gateway: StartGateway) -> None:
    async with talking(start_gateway) as (_, gateway, client):
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(model="nothing", messages=MESSAGES)
        assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens="many")  # type: ignore[call-overload]
        assert (wrong.value.code, wrong.value.param) == ("invalid_request", "max_tokens")
        with pytest.raises(openai.NotFoundError) as nowhere:
            await client.moderations.create(input="x")
        assert nowhere.value.code is not None
        with pytest.raises(openai.APIStatusError) as large:
            await client.completions.create(model="chat", prompt="x" * 2_000_000)
        assert (large.value.status_code, large.value.code) == (413, "request_too_large")
        async with make_client(gateway, api_key="wrong") as stranger:
            with pytest.raises(openai.AuthenticationError) as refused:
                await stranger.models.list()
            assert refused.value.code == "invalid_api_key"


async def test_no_replica_is_told_with_when_to_ask_again(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    async with make_client(gateway) as client:
        with pytest.raises(openai.InternalServerError) as refused:
            await client.chat.completions.create(model="chat", messages=MESSAGES)
    assert (refused.value.status_code, refused.value.code) == (503, "no_replica")
    assert int(refused.value.response.headers["retry-after"]) >= 1


@pytest.mark.parametrize(("status", "kind"), [(503, openai.InternalServerError), (429, openai.RateLimitError)])
async def test_overload_is_told_with_the_status_that_is_set(
    start_gateway: StartGateway, status: int, kind: type[openai.APIStatusError]
) -> None:
    free, hold = make_held()
    tiers = (INTERACTIVE, replace(STANDARD, queue_most=0), BATCH)
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, tiers=tiers)), overload_status=status)
        async with make_client(gateway) as client:
            first = asyncio.create_task(client.chat.completions.create(model="chat", messages=MESSAGES))
            await until(lambda: engine.requests)
            with pytest.raises(kind) as refused:
                await client.chat.completions.create(model="chat", messages=MESSAGES)
            assert (refused.value.status_code, refused.value.code) == (status, "overloaded")
            assert int(refused.value.response.headers["retry-after"]) >= 1
            free.set()
            assert (await first).choices[0].message.content == "Paris"
        await gateway.until_idle()
    is_at_rest(gateway)


@pytest.mark.services
async def test_a_quota_that_is_used_up_is_a_rate_limit(start_gateway: StartGateway, valkey_server: str) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_limited(engine.url, requests_per_minute=2), valkey_server)
        async with make_client(gateway) as client:
            raw = await client.chat.completions.with_raw_response.create(model="chat", messages=MESSAGES)
            assert raw.headers["x-ratelimit-limit-requests"] == "2"
            await client.chat.completions.create(model="chat", messages=MESSAGES)
            with pytest.raises(openai.RateLimitError) as refused:
                await client.chat.completions.create(model="chat", messages=MESSAGES)
    assert (refused.value.code, refused.value.type) == ("quota_exceeded", "rate_limit_exceeded")
    assert refused.value.response.headers["x-ratelimit-remaining-requests"] == "0"


async def test_the_package_tries_again_by_itself_when_it_is_told_when(start_gateway: StartGateway) -> None:
    async def busy_once(request: Request, peer: Peer) -> None:
        error = {"error": {"message": "busy", "type": "T", "param": None, "code": 503}}
        refuse = make_reply("503 Service Unavailable", error, "retry-after: 1\r\n")
        await (refuse if len(engine.requests) == 1 else answer)(request, peer)

    async with talking(start_gateway, busy_once, max_retries=1) as (engine, _, client):
        got = await client.chat.completions.create(model="chat", messages=MESSAGES)
        assert got.choices[0].message.content == "Paris"
        assert len(engine.requests) == 2


# -- what ends in the midst --------------------------------------------------------------------------------------------


async def test_a_broken_stream_is_an_error(start_gateway: StartGateway) -> None:
    async def die(_: Request, peer: Peer) -> None:
        await peer.send(STREAM_HEAD, chunk(event("one")))
        peer.cut()

    async with talking(start_gateway, die) as (_, _, client):
        stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
        with pytest.raises(openai.APIError, match="broke off"):
            async for _ in stream:
                pass


async def endless(request: Request, peer: Peer) -> None:
    if request.json.get("stream"):
        await peer.send(STREAM_HEAD, chunk(event()))
    await peer.wait_until_closed()


async def test_a_stream_that_is_closed_early_ends_the_engines_work(start_gateway: StartGateway) -> None:
    async with talking(start_gateway, endless) as (_, gateway, client):
        async with await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True) as stream:
            async for one in stream:
                assert one.choices[0].delta.content == "tok"
                break
        await gateway.until_idle()
        assert gateway.process.meter.answers == {("chat", 200): 1}


async def test_an_answer_that_is_not_waited_for_any_more_ends_the_engines_work(start_gateway: StartGateway) -> None:
    async with talking(start_gateway, endless) as (engine, gateway, client):
        with pytest.raises(openai.APITimeoutError):
            await client.with_options(timeout=0.3).chat.completions.create(model="chat", messages=MESSAGES)
        await gateway.until_idle()
        asked = asyncio.create_task(client.chat.completions.create(model="chat", messages=MESSAGES))
        await until(lambda: len(engine.requests) == 2)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await gateway.until_idle()
        assert gateway.process.meter.answers == {("chat", 499): 2}
