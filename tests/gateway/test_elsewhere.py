"""What a replica fails at before the client got anything is asked of another one, once."""

from __future__ import annotations

import asyncio
import json
import math
import re
from dataclasses import replace

import pytest

from controlplane.domain.admission.queueing import Admission
from tests.gateway.conftest import (
    Running,
    StartGateway,
    make_deployment,
    make_request,
    make_snapshot,
    read_answer,
    until,
)
from tests.gateway.engine import DONE, LAST_CHUNK, Engine, Peer, Request, Script, answer, chunk, event, head, plain_body
from tests.gateway.test_admission import ask_some, gate_of, is_at_rest, make_held, make_seats

DEAD = json.dumps({"error": {"message": "EngineCore encountered an issue. See stack trace", "code": 500}}).encode()
STREAM_HEAD = head(kind="text/event-stream")


def make_error(status: str, body: bytes = b'{"error": {"message": "no"}}') -> Script:
    async def fail(_: Request, peer: Peer) -> None:
        await peer.send(head(status=status, length=len(body)) + body)

    return fail


def make_stream(*events: bytes) -> Script:
    async def say(_: Request, peer: Peer) -> None:
        await peer.send(STREAM_HEAD, *[chunk(one) for one in events], LAST_CHUNK)

    return say


def make_event(code: object) -> bytes:
    return (
        b"data: "
        + json.dumps({"error": {"message": "no", "type": "X", "param": None, "code": code}}).encode()
        + b"\n\n"
    )


def keep_no_seats(gateway: Running) -> Admission:
    """Lets one tenant have every seat."""
    admission = gate_of(gateway).admission
    admission.set_policy(replace(admission.policy, kept_seats=0), 0.0)
    return admission


async def test_what_a_replica_makes_no_progress_with_is_asked_of_another_one(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.domain.admission.breaker.STREAM_STALL_S", 0.5)
    over = asyncio.Event()

    async def stall(request: Request, peer: Peer) -> None:
        if request.json.get("max_tokens") == 7:
            await peer.send(STREAM_HEAD, chunk(event()))
            await over.wait()
            peer.cut()
        else:
            await peer.wait_until_closed()

    async with Engine(stall) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        admission = keep_no_seats(gateway)
        admission.rest("r1", math.inf)
        (stays,) = await ask_some(gateway, 1, stream=True, max_tokens=7)
        tasks = await ask_some(gateway, 1, stream=True) + await ask_some(gateway, 1)
        await until(lambda: len(bad.requests) == 3)
        admission.rest("r1", 0.0)
        answers = await asyncio.gather(*tasks)
        text = (await gateway.get("/metrics")).body.decode()
        assert not stays.done(), "its client has a part of the answer"
        over.set()
        assert b"upstream_failed" in (await stays).body
        await gateway.until_idle()
    assert [(one.status, one.headers["x-headworks-replica"]) for one in answers] == [(200, "r1")] * 2
    assert re.search(r'sent_elsewhere_total{.*replica="r0",reason="stalled"} 2', text)
    is_at_rest(gateway)


async def babble(_: Request, peer: Peer) -> None:
    await peer.send(b"220 mail.example ESMTP\r\n")


async def cut(_: Request, peer: Peer) -> None:
    peer.cut()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("script", "why"),
    [
        (make_error("500 Internal Server Error"), "500"),
        (make_error("500 Internal Server Error", DEAD), "500"),
        (make_error("502 Bad Gateway", b"<html>"), "502"),
        (make_error("503 Service Unavailable"), "503"),
        (make_error("429 Too Many Requests"), "429"),
        (make_error("401 Unauthorized"), "broken"),
        (make_error("302 Found"), "broken"),
        (babble, "broken"),
        (cut, "broken"),
    ],
)
async def test_a_failure_of_a_replica_goes_to_another(
    start_gateway: StartGateway, script: Script, why: str, stream: bool
) -> None:
    async with Engine(script) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        got = await gateway.chat(stream=stream)
        assert (got.status, got.whole, got.headers["x-headworks-replica"]) == (200, True, "r1")
        await gateway.until_idle()
        meter = gateway.process.meter
        assert (len(bad.requests), len(good.requests)) == (1, 1)
        assert meter.answers == {("chat", 200): 1}
        assert meter.sent_elsewhere == {("chat", "r0", why): 1}
        (used,) = gateway.usage()
        assert (used.requests, used.errors, used.prompt_tokens) == (1, 0, 7)
        told = (await gateway.get("/metrics")).body.decode()
        assert f'replica="r0",reason="{why}"}} 1' in told
    is_at_rest(gateway)


@pytest.mark.parametrize("first", [DEAD, make_event(500)[6:-2], make_event("500")[6:-2], make_event(503)[6:-2]])
async def test_a_stream_that_begins_with_an_error_goes_to_another(start_gateway: StartGateway, first: bytes) -> None:
    async with Engine(make_stream(b"data: " + first + b"\n\n", DONE)) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        got = await gateway.chat(stream=True)
        await gateway.until_idle()
    assert (got.status, got.headers["x-headworks-replica"]) == (200, "r1")
    assert b"error" not in got.body
    is_at_rest(gateway)


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "422 X", "501 X", "504 Gateway Timeout"])
async def test_what_is_no_fault_of_the_replica_is_told_at_once(start_gateway: StartGateway, status: str) -> None:
    async with Engine(make_error(status)) as one, Engine() as other:
        gateway = await start_gateway(make_snapshot(make_deployment(one.url, other.url)))
        got = await gateway.chat()
        await gateway.until_idle()
    assert (got.status, got.headers["x-headworks-replica"]) == (int(status[:3]), "r0")
    assert not other.requests


@pytest.mark.parametrize(("code", "status"), [(400, 400), ("500", 500)])
async def test_a_stream_that_begins_with_an_error_and_has_nowhere_to_go_is_that_error(
    start_gateway: StartGateway, code: object, status: int
) -> None:
    async with Engine(make_stream(make_event(code), DONE)) as only:
        gateway = await start_gateway(make_snapshot(make_deployment(only.url)))
        got = await gateway.chat(stream=True)
        await gateway.until_idle()
    assert (got.status, got.headers["content-type"]) == (status, "application/json")
    assert got.json["error"] == {"message": "no", "type": "X", "param": None, "code": "upstream_error"}
    assert gateway.process.meter.answers == {("chat", status): 1}


@pytest.mark.parametrize(
    "odd", [b'{"error": "no"}', b'{"error": {"message": "no"}}', make_event(200)[6:-2], b'{"error"']
)
async def test_a_stream_that_begins_with_an_error_of_no_known_kind_comes_through(
    start_gateway: StartGateway, odd: bytes
) -> None:
    said = b"data: " + odd + b"\n\n"
    async with Engine(make_stream(said, DONE)) as only:
        gateway = await start_gateway(make_snapshot(make_deployment(only.url)))
        got = await gateway.chat(stream=True)
    assert (got.status, got.body) == (200, said + DONE)


async def test_after_a_byte_nothing_goes_to_another(start_gateway: StartGateway) -> None:
    for last in (make_event(500), b"data: " + DEAD + b"\n\n"):
        async with Engine(make_stream(event("one"), last)) as bad, Engine() as good:
            gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
            got = await gateway.chat(stream=True)
            await gateway.until_idle()
        assert got.body.startswith(event("one")) and b'"error"' in got.body
        assert not good.requests


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable"])
async def test_the_answer_of_the_second_replica_is_the_last_word(start_gateway: StartGateway, status: str) -> None:
    async with (
        Engine(make_error("500 X", b'{"error": {"message": "one"}}')) as one,
        Engine(make_error(status, b'{"error": {"message": "two"}}')) as two,
        Engine() as three,
    ):
        gateway = await start_gateway(make_snapshot(make_deployment(one.url, two.url, three.url)))
        got = await gateway.chat()
        await gateway.until_idle()
    assert got.status == int(status[:3])
    assert ("two" if got.status == 500 else "The engine's own queue is full.") in got.json["error"]["message"]
    assert got.headers["x-headworks-replica"] == "r1"
    assert not three.requests
    is_at_rest(gateway)


async def test_the_emptier_replica_that_failed_is_not_asked_again(start_gateway: StartGateway) -> None:
    free, hold = make_held()

    async with Engine(make_error("503 X")) as bad, Engine(hold) as good:
        gateway = await start_gateway(make_snapshot(make_seats(bad.url, good.url, seats=8)))
        asked = [asyncio.create_task(gateway.chat(max_tokens=10)) for _ in range(6)]
        await until(lambda: len(good.requests) == 6)
        free.set()
        assert [(await one).status for one in asked] == [200] * 6
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_it_waits_for_a_seat_elsewhere_and_lets_others_pass(start_gateway: StartGateway) -> None:
    free, hold = make_held()

    async def fail_first(request: Request, peer: Peer) -> None:
        await (make_error("500 X") if len(moody.requests) == 1 else answer)(request, peer)

    async with Engine(hold) as busy, Engine(fail_first) as moody:
        gateway = await start_gateway(make_snapshot(make_seats(busy.url, moody.url, seats=1)))
        queue = keep_no_seats(gateway).queue
        held = await ask_some(gateway, 1)
        await until(lambda: busy.requests)
        failed = asyncio.create_task(gateway.chat())
        await until(lambda: moody.requests and queue.count == 1)
        other = await gateway.chat()
        assert (other.status, other.headers["x-headworks-replica"]) == (200, "r1")
        free.set()
        assert [(await one).status for one in (*held, failed)] == [200] * 2
        assert (await failed).headers["x-headworks-replica"] == "r0"
        assert int((await failed).headers["x-headworks-queue-ms"]) > 0
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_a_client_that_leaves_between_two_replicas_is_not_served(start_gateway: StartGateway) -> None:
    free, hold = make_held()

    async with Engine(hold) as busy, Engine(make_error("500 X")) as bad:
        gateway = await start_gateway(make_snapshot(make_seats(busy.url, bad.url, seats=1)))
        queue = keep_no_seats(gateway).queue
        held = await ask_some(gateway, 1)
        await until(lambda: busy.requests)
        _, writer = await gateway.open()
        writer.write(make_request({"model": "chat", "messages": []}))
        await until(lambda: bad.requests and queue.count == 1)
        writer.close()
        await until(lambda: not queue.count)
        free.set()
        assert [(await one).status for one in held] == [200]
        await gateway.until_idle()
    assert len(busy.requests) == 1
    is_at_rest(gateway)


async def test_a_replica_that_falls_over_amid_many_costs_no_plain_request(start_gateway: StartGateway) -> None:
    async def die_at_ten(request: Request, peer: Peer) -> None:
        if len(one.requests) >= 10:
            peer.cut()
        else:
            await asyncio.sleep(0.01)
            await answer(request, peer)

    async with Engine(die_at_ten) as one, Engine() as two:
        gateway = await start_gateway(make_snapshot(make_deployment(one.url, two.url)))
        reader, writer = await gateway.open()
        writer.write(make_request({"model": "chat", "messages": []}))
        assert (await read_answer(reader)).body == plain_body()
        writer.close()
        answers = await asyncio.gather(*[gateway.chat() for _ in range(60)])
        await gateway.until_idle()
    assert [one.status for one in answers] == [200] * 60
    is_at_rest(gateway)
