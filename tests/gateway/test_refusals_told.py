"""Refusals that do not come in OpenAI's shape, deployments that are stopped, and endpoints that lead back here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.routing import RoutedReplica
from tests.gateway.conftest import KEY, StartGateway, make_deployment, make_snapshot
from tests.gateway.engine import LAST_CHUNK, Engine, Peer, Request, chunk, head
from tests.gateway.test_failures import free_port


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        ("404 Not Found", b'{"detail":"Not Found"}', "not_supported", "can't do this"),
        ("422 Unprocessable", b'{"detail":"input is missing"}', "upstream_error", "422: input is missing"),
        ("400 Bad Request", b'{"object":"error","message":"too long"}', "upstream_error", "400: too long"),
        ("400 Bad Request", b'{"error":"too long"}', "upstream_error", "400: too long"),
        ("409 Conflict", b"slow down\n please", "upstream_error", "409: slow down please"),
        ("500 Internal Server Error", b"", "upstream_error", "gave no reason"),
        ("500 Internal Server Error", b"<html>" + b"x" * 5000, "upstream_error", "gave no reason"),
        ("500 Internal Server Error", b"[1]", "upstream_error", "500: [1]"),
    ],
)
async def test_a_refusal_in_another_shape_is_told_in_openai_s(
    start_gateway: StartGateway, status: str, body: bytes, code: str, words: str
) -> None:
    async def refuse(_: Request, peer: Peer) -> None:
        await peer.send(head(status=status, length=len(body)) + body)

    async with Engine(refuse) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat()
        await gateway.until_idle()
    assert (got.status, got.code) == (int(status[:3]), code)
    assert words in got.json["error"]["message"]
    assert got.headers["x-headworks-replica"] == "r0"


@pytest.mark.parametrize(
    ("status", "body", "own", "told"),
    [
        ("503 Service Unavailable", b'{"error":{"message":"full","type":"x"}}', b"", "1"),
        ("429 Too Many Requests", b'{"detail":"full"}', b"", "1"),
        ("503 Service Unavailable", b'{"error":{"message":"full","type":"x"}}', b"retry-after: 7\r\n", "7"),
        ("429 Too Many Requests", b'{"detail":"full"}', b"retry-after: 7\r\n", "7"),
        ("400 Bad Request", b'{"error":{"message":"no","type":"x"}}', b"", None),
    ],
)
async def test_a_full_engine_says_when_to_ask_again(
    start_gateway: StartGateway, status: str, body: bytes, own: bytes, told: str | None
) -> None:
    async def refuse(_: Request, peer: Peer) -> None:
        whole = head(status=status, length=len(body))
        await peer.send(whole[:-2] + own + b"\r\n" + body)

    async with Engine(refuse) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat()
        await gateway.until_idle()
    assert (got.status, got.headers.get("retry-after")) == (503 if told else 400, told)


@pytest.mark.parametrize("status", ["503 Service Unavailable", "429 Too Many Requests"])
@pytest.mark.parametrize("overload_status", [503, 429])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_full_engine_of_our_own_is_told_as_the_gateway_s_overload(
    start_gateway: StartGateway, status: str, overload_status: int, stream: bool
) -> None:
    body = b'{"error":{"message":"Engine queue is full","type":"ServiceUnavailableError","code":503}}'

    async def refuse(request: Request, peer: Peer) -> None:
        if request.json.get("stream"):
            await peer.send(head(kind="text/event-stream"), chunk(b"data: " + body + b"\n\n"), LAST_CHUNK)
        else:
            await peer.send(head(status=status, length=len(body)) + body)

    async with Engine(refuse) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)), overload_status=overload_status)
        got = await gateway.chat(stream=stream)
        await gateway.until_idle()
        text = (await gateway.get("/metrics")).body.decode()
    assert (got.status, got.code, got.headers["retry-after"]) == (overload_status, "overloaded", "1")
    assert "The engine's own queue is full." in got.json["error"]["message"]
    assert got.headers["x-headworks-replica"] == "r0"
    assert 'tier="standard",reason="engine_full"} 1' in text


async def test_an_endpoint_of_others_says_itself_that_it_is_full(start_gateway: StartGateway) -> None:
    body = b'{"error":{"message":"full","type":"x"}}'

    async def refuse(_: Request, peer: Peer) -> None:
        await peer.send(head(status="429 Too Many Requests", length=len(body)) + body)

    async with Engine(refuse) as engine:
        gateway = await start_gateway(make_snapshot(replace(make_deployment(engine.url), engine="external")))
        got = await gateway.chat()
    assert (got.status, got.body) == (429, body)


async def test_a_stopped_deployment_says_that_it_is_stopped(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(replace(make_deployment(), stopped=True)))
    got = await gateway.chat()
    assert (got.status, got.code, got.headers["retry-after"]) == (503, "no_replica", "60")
    assert "is stopped" in got.json["error"]["message"]


async def test_while_a_replica_of_a_stopped_deployment_is_there_it_serves(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(replace(make_deployment(engine.url), stopped=True)))
        assert (await gateway.chat()).status == 200


async def test_an_endpoint_that_leads_back_to_the_gateway_ends_after_a_few_hops(start_gateway: StartGateway) -> None:
    port = free_port()
    itself = RoutedReplica("r0", f"http://127.0.0.1:{port}", KEY, "chat")
    snapshot = make_snapshot(replace(make_deployment(), engine="external", replicas=(itself,)))
    gateway = await start_gateway(snapshot, port=port)
    got = await gateway.chat()
    await gateway.until_idle()
    assert (got.status, got.code) == (508, "loop_detected")
    assert "come through 4 gateways" in got.json["error"]["message"]


async def test_only_endpoints_are_told_of_hops(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        here, elsewhere = make_deployment(engine.url), make_deployment(engine.url, name="far")
        gateway = await start_gateway(make_snapshot(here, replace(elsewhere, engine="external")))
        await gateway.ask({"model": "chat"}, headers={"x-headworks-hops": "2"})
        await gateway.ask({"model": "far"}, headers={"x-headworks-hops": "2"})
        await gateway.ask({"model": "far"}, headers={"x-headworks-hops": "many"})
    assert [one.headers.get("x-headworks-hops") for one in engine.requests] == [None, "3", "1"]
