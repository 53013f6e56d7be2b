"""Long plain answers, embeddings and log probabilities, are counted as the engine counts them, wherever it says so."""

from __future__ import annotations

import asyncio
import json

import pytest

from controlplane.domain.quotas.quota import Quota
from controlplane.domain.usage import UsageRow
from controlplane.gateway import plain_answer
from tests.gateway.conftest import Running, StartGateway, make_deployment, make_request, make_snapshot, until
from tests.gateway.engine import Engine, Peer, Request, Script, head

USAGE = {"prompt_tokens": 4321, "completion_tokens": 17, "total_tokens": 4338}
VECTORS = [{"index": one, "embedding": [0.0123456789] * 1024} for one in range(200)]  # 3 MB


def make_script(body: bytes, more: bytes = b"", kind: str = "application/json") -> Script:
    async def say(_: Request, peer: Peer) -> None:
        start = head(kind=kind, length=len(body)).removesuffix(b"\r\n")
        await peer.send(start + more + b"\r\n" + body)

    return say


def used(gateway: Running) -> UsageRow:
    (one,) = gateway.usage()
    return one


@pytest.mark.parametrize("held_bytes", [plain_answer.HOLD_BYTES, 10_000_000])
@pytest.mark.parametrize(
    "fields",
    [
        {"object": "list", "data": VECTORS, "usage": USAGE},
        {"usage": USAGE, "object": "list", "data": VECTORS},
        {"choices": VECTORS, "usage": USAGE, "prompt_logprobs": VECTORS},
    ],
)
async def test_a_long_answer_is_counted_whatever_stands_first(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch, fields: dict, held_bytes: int
) -> None:
    monkeypatch.setattr(plain_answer, "HOLD_BYTES", held_bytes)
    body = json.dumps(fields).encode()
    async with Engine(make_script(body)) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.ask({"model": "chat", "input": "a"}, path="/v1/embeddings")
        await gateway.until_idle()
    assert got.body == body
    assert (used(gateway).prompt_tokens, used(gateway).completion_tokens) == (4321, 17)


async def test_vectors_as_bytes_are_counted_by_what_their_header_says(start_gateway: StartGateway) -> None:
    more = b"metadata: " + json.dumps({"data": [{"start": 0, "end": 8}], "usage": USAGE}).encode() + b"\r\n"
    async with Engine(make_script(b"\x00" * 8, more, "application/octet-stream")) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.ask({"model": "chat", "input": "a", "encoding_format": "bytes"}, path="/v1/embeddings")
        await gateway.until_idle()
    assert got.body == b"\x00" * 8
    assert json.loads(got.headers["metadata"])["usage"] == USAGE
    assert used(gateway).prompt_tokens == 4321


async def test_what_the_engine_does_not_count_is_counted_as_it_was_estimated(start_gateway: StartGateway) -> None:
    async with Engine(make_script(b"\x00" * 8, kind="application/octet-stream")) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        await gateway.ask({"model": "chat", "input": "a" * 4000}, path="/v1/embeddings")
        await gateway.until_idle()
        gate = gateway.process.gates.by_name["chat"]
    assert 900 < used(gateway).prompt_tokens < 1200
    assert not any(one.error_count for one in gate.sizes.prompts.values()), "an estimate teaches nothing"


async def test_a_plain_answer_without_a_count_is_used_as_quotas_count_it(start_gateway: StartGateway) -> None:
    async with Engine(make_script(b'{"choices": []}')) as engine:
        deployment = make_deployment(engine.url)
        quota = Quota("1", "day", "acme", limits={"tokens_per_day": 100_000})
        gateway = await start_gateway(make_snapshot(deployment, quotas=(quota,)))
        await gateway.chat(max_tokens=400)
        await gateway.until_idle()
    counted = used(gateway)
    assert counted.completion_tokens == 400 and counted.prompt_tokens > 0
    spent = gateway.process.gates.quotas.book.meters["1:tokens_per_day"].spent_total
    assert spent == counted.prompt_tokens + counted.completion_tokens
    assert not gateway.process.gates.by_name["chat"].sizes.mean_tokens, "an estimate teaches nothing"


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Internal Server Error"])
async def test_what_an_engine_refuses_counts_for_nothing(start_gateway: StartGateway, status: str) -> None:
    async def refuse(_: Request, peer: Peer) -> None:
        await peer.send(head(status=status, length=2) + b"{}")

    async with Engine(refuse) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        await gateway.chat()
        await gateway.until_idle()
    assert (used(gateway).requests, used(gateway).prompt_tokens) == (1, 0)


async def test_a_client_that_leaves_is_counted_the_prompt_that_the_engine_worked_on(
    start_gateway: StartGateway,
) -> None:
    async def silent(_: Request, peer: Peer) -> None:
        await peer.wait_until_closed()

    async with Engine(silent) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        _, writer = await gateway.open()
        writer.write(make_request({"model": "chat", "messages": [{"role": "user", "content": "a" * 4000}]}))
        await until(lambda: engine.requests)
        writer.close()
        await asyncio.sleep(0)
        await gateway.until_idle()
    assert 900 < used(gateway).prompt_tokens < 1200
