"""What breaks, and what the client and the engine see of it."""

from __future__ import annotations

import asyncio
import random
import socket

import pytest

from controlplane.gateway import plain_answer
from tests.gateway.conftest import Running, StartGateway, make_deployment, make_request, make_snapshot, until
from tests.gateway.engine import DONE, LAST_CHUNK, Engine, Peer, Request, answer, chunk, event, head, plain_body

STREAM_HEAD = head(kind="text/event-stream")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_stream_that_breaks_ends_with_an_error_event(start_gateway: StartGateway) -> None:
    async def die(_: Request, peer: Peer) -> None:
        await peer.send(STREAM_HEAD, chunk(event("one")), chunk(event("two"))[:-20])
        peer.writer.close()

    async with Engine(die) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat(stream=True)
        await gateway.until_idle()
    first, rest = got.body[: len(event("one"))], got.body[len(event("one")) :]
    assert (got.status, got.whole, first) == (200, True, event("one"))
    assert rest.startswith(b'data: {"error":{"message":"The answer broke off')
    assert rest.endswith(b"}\n\n")
    assert b"[DONE]" not in rest


async def test_a_replica_that_dies_before_any_byte_is_a_502(start_gateway: StartGateway) -> None:
    async def die(_: Request, peer: Peer) -> None:
        peer.cut()

    async with Engine(die) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        for stream in (False, True):
            got = await gateway.chat(stream=stream)
            assert (got.status, got.code) == (502, "upstream_failed")
        await gateway.until_idle()
    assert len(engine.requests) == 2, "a request that may have reached the engine was sent again"


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_replica_drops_before_the_client_got_anything_goes_to_another_once(
    start_gateway: StartGateway, stream: bool
) -> None:
    async def drop(_: Request, peer: Peer) -> None:
        await peer.send(STREAM_HEAD if stream else head(length=100) + b"{")
        peer.cut()

    async with Engine(drop) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        got = await gateway.chat(stream=stream)
        await gateway.until_idle()
        assert (got.status, got.headers["x-headworks-replica"]) == (200, "r1")
        assert (len(bad.requests), len(good.requests)) == (1, 1)
        assert gateway.process.meter.answers == {("chat", 200): 1}
    async with Engine(drop) as one, Engine(drop) as two:
        gateway = await start_gateway(make_snapshot(make_deployment(one.url, two.url), version=2))
        assert (await gateway.chat(stream=stream)).status == 502
        assert len(one.requests) == len(two.requests) == 1


DEAD = (
    b'{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","code":500}}'
)


async def test_what_an_engine_says_of_its_own_death_is_put_into_words_for_clients(start_gateway: StartGateway) -> None:
    async def die(request: Request, peer: Peer) -> None:
        if request.json["stream"]:
            last = b"data: " + DEAD + b"\n\ndata: [DONE]\n\n"
            await peer.send(STREAM_HEAD, chunk(event("one")), chunk(last), LAST_CHUNK)
        else:
            await peer.send(head(status="500 Internal Server Error", length=len(DEAD)) + DEAD)

    async with Engine(die) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        plain, streamed = await gateway.chat(stream=False), await gateway.chat(stream=True)
        await gateway.until_idle()
    assert (plain.status, plain.code) == (502, "upstream_failed")
    assert streamed.whole and streamed.body.startswith(event("one"))
    for body in (plain.body, streamed.body):
        assert b"The engine of the replica ended" in body and b"stack trace" not in body


async def test_a_model_may_write_of_dead_engines(start_gateway: StartGateway) -> None:
    said = event('data: {\\"error\\": EngineCore encountered an issue.')

    async def talk(_: Request, peer: Peer) -> None:
        await peer.send(STREAM_HEAD, chunk(said), LAST_CHUNK)

    async with Engine(talk) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat(stream=True)
    assert got.body == said


async def test_a_plain_answer_that_breaks_is_a_502(start_gateway: StartGateway) -> None:
    async def die(_: Request, peer: Peer) -> None:
        await peer.send(head(length=1000) + b"{")
        peer.writer.close()

    async with Engine(die) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat()
    assert (got.status, got.code) == (502, "upstream_failed")


async def test_a_long_plain_answer_that_breaks_is_cut(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_answer, "HOLD_BYTES", 100)

    async def die(_: Request, peer: Peer) -> None:
        await peer.send(head(length=1000) + b"x" * 500)
        peer.writer.close()

    async with Engine(die) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat()
        await gateway.until_idle()
    assert (got.status, got.whole, got.body) == (200, False, b"x" * 500)


async def test_an_answer_that_is_not_http_is_a_502(start_gateway: StartGateway) -> None:
    async def babble(_: Request, peer: Peer) -> None:
        await peer.send(b"220 mail.example ESMTP\r\n")

    async with Engine(babble) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        assert (await gateway.chat()).code == "upstream_failed"


async def test_two_answers_for_one_request_never_reach_the_next_client(start_gateway: StartGateway) -> None:
    async def answer_twice(_: Request, peer: Peer) -> None:
        body = plain_body("mine")
        await peer.send((head(length=len(body)) + body) * 2)

    async with Engine(answer_twice) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        for _ in range(3):
            assert (await gateway.chat()).body == plain_body("mine")
    assert engine.connections == 3


async def test_an_informational_answer_is_skipped(start_gateway: StartGateway) -> None:
    async def hint(request: Request, peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        await answer(request, peer)

    async with Engine(hint) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        assert (await gateway.chat()).body == plain_body()


async def test_an_answer_that_ends_with_the_connection_is_whole(start_gateway: StartGateway) -> None:
    async def until_close(_: Request, peer: Peer) -> None:
        await peer.send(b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + plain_body())
        peer.writer.close()

    async with Engine(until_close) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        assert (await gateway.chat()).body == plain_body()


async def test_a_host_that_vanishes_without_a_word_is_noticed(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        await gateway.chat()
        routes = gateway.process.snapshots.routes
        assert routes is not None
        connection = routes.pools["r0"].take()
        assert connection is not None
        sock = connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        probes = [sock.getsockopt(socket.IPPROTO_TCP, one) for one in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)]
        count = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        assert probes[0] + probes[1] * count <= 120
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000
        connection.abort()


async def test_a_connection_is_used_again(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        for stream in (True, False, True):
            await gateway.chat(stream=stream)
    assert engine.connections == 1


async def test_a_pooled_connection_that_turns_out_closed_costs_the_client_nothing(start_gateway: StartGateway) -> None:
    async def once_a_connection(request: Request, peer: Peer) -> None:
        if len(engine.requests) in (2, 4):
            peer.cut()  # as if the engine had closed it while the request was on its way
        else:
            await answer(request, peer)

    async with Engine(once_a_connection) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        answers = [await gateway.chat() for _ in range(3)]
        await gateway.until_idle()
    assert [one.status for one in answers] == [200, 200, 200]
    assert engine.connections == 3
    assert gateway.process.meter.answers == {("chat", 200): 3}


async def test_a_refused_connection_goes_to_another_replica_and_leaves_the_first_alone(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        dead = f"http://127.0.0.1:{free_port()}"
        gateway = await start_gateway(make_snapshot(make_deployment(dead, engine.url)))
        answers = [await gateway.chat() for _ in range(6)]
        await gateway.until_idle()
    assert {(one.status, one.headers["x-headworks-replica"]) for one in answers} == {(200, "r1")}
    assert len(engine.requests) == 6


async def test_at_most_two_replicas_are_tried(start_gateway: StartGateway) -> None:
    dead = [f"http://127.0.0.1:{free_port()}" for _ in range(4)]
    gateway = await start_gateway(make_snapshot(make_deployment(*dead)))
    got = await gateway.chat(stream=True)
    assert (got.status, got.code, got.headers["retry-after"]) == (503, "no_replica", "1"), "the first rest is a second"
    assert gateway.process.gates.in_flight() == {}
    assert gateway.process.meter.answers == {("chat", 503): 1}


async def test_the_only_replica_is_tried_even_while_it_cools_down(start_gateway: StartGateway) -> None:
    port = free_port()
    gateway = await start_gateway(make_snapshot(make_deployment(f"http://127.0.0.1:{port}")))
    assert (await gateway.chat()).code == "no_replica"
    async with Engine(port=port):
        assert (await gateway.chat()).status == 200


async def test_a_client_that_leaves_ends_the_engines_work(start_gateway: StartGateway) -> None:
    left = asyncio.Event()

    async def endless(request: Request, peer: Peer) -> None:
        if request.json.get("stream"):
            await peer.send(STREAM_HEAD, chunk(event()))
        await peer.wait_until_closed()
        left.set()

    async with Engine(endless) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        for stream in (False, True):
            left.clear()
            reader, writer = await gateway.open()
            writer.write(make_request({"model": "chat", "stream": stream}))
            await (reader.readuntil(b"tok") if stream else until(lambda: len(engine.requests) == 1))
            writer.close()
            await asyncio.wait_for(left.wait(), 10)
            await gateway.until_idle()
    assert gateway.process.meter.answers == {("chat", 499): 1, ("chat", 200): 1}


async def test_a_slow_client_slows_the_engine_down_and_gets_everything(start_gateway: StartGateway) -> None:
    pieces = [event("x" * 4000 + str(number)) for number in range(8000)]  # 32 MB
    sent = 0

    async def flood(_: Request, peer: Peer) -> None:
        nonlocal sent
        await peer.send(STREAM_HEAD)
        for piece in pieces:
            peer.writer.write(chunk(piece))
            await peer.writer.drain()
            sent += len(piece)
        await peer.send(chunk(DONE), LAST_CHUNK)

    async with Engine(flood) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        reader._limit = 1000  # type: ignore[attr-defined]  # stop reading from the socket early
        writer.write(make_request({"model": "chat", "stream": True}))
        await reader.readuntil(b"\r\n\r\n")
        stalled_at = -1
        while stalled_at != sent:
            stalled_at = sent
            await asyncio.sleep(0.3)
        assert stalled_at < 24_000_000, "the gateway took in what the client does not read"
        body = await reader.read()
        writer.close()
        await gateway.until_idle()
    assert b"[DONE]" in body
    assert body.count(b'"delta"') == len(pieces)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_may_be_silent_for_as_long_as_its_tier_may_take(
    start_gateway: StartGateway, stream: bool
) -> None:
    free = asyncio.Event()

    async def silent(request: Request, peer: Peer) -> None:
        if request.json["stream"]:
            await peer.send(STREAM_HEAD, chunk(event()))
        await free.wait()
        await (peer.send(chunk(DONE), LAST_CHUNK) if request.json["stream"] else answer(request, peer))

    async with Engine(silent) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        asked = asyncio.create_task(gateway.chat(stream=stream))
        await until(lambda: engine.requests)
        routes = gateway.process.snapshots.routes
        assert routes is not None
        routes.pools["r0"].sweep(100_000)
        free.set()
        assert ((await asked).status, (await asked).whole) == (200, True)
        await gateway.until_idle()


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
async def test_events_may_come_in_any_pieces(start_gateway: StartGateway, end: bytes) -> None:
    whole = b"".join(event(str(number)).replace(b"\n\n", end) for number in range(3)) + b"data: [DONE]" + end

    async def in_pieces(request: Request, peer: Peer) -> None:
        size = int(request.json["size"])
        await peer.send(STREAM_HEAD)
        await peer.send(*[chunk(whole[at : at + size]) for at in range(0, len(whole), size)], LAST_CHUNK)

    async with Engine(in_pieces) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        for size in (1, 2, 3, 7, 50, 1000):
            assert (await gateway.chat(stream=True, size=size)).body == whole


async def moody(request: Request, peer: Peer) -> None:
    """An engine that ends its work at any stage, by the request's own wish."""
    mood = request.json["mood"]
    if mood == "cut":
        peer.cut()
        return
    await asyncio.sleep(request.json["wait"])
    if not request.json["stream"]:
        body = plain_body()
        await peer.send(head(length=len(body)) + body[:10])
        if mood == "die":
            peer.cut()
            return
        await peer.send(body[10:])
        return
    await peer.send(STREAM_HEAD)
    for number in range(5):
        await peer.send(chunk(event(str(number))))
        await asyncio.sleep(request.json["wait"])
        if mood == "die" and number == 3:
            peer.cut()
            return
    await peer.send(chunk(DONE), LAST_CHUNK)


async def one_of_many(gateway: Running, chance: random.Random) -> None:
    """One request whose client leaves at a random stage: before, within or after the request, or in the answer."""
    body = {
        "model": "chat",
        "stream": chance.random() < 0.6,
        "mood": chance.choice(["fine", "fine", "die", "cut"]),
        "wait": chance.random() * 0.01,
    }
    raw = make_request(body)
    reader, writer = await gateway.open()
    try:
        stage = chance.choice(["connect", "request", "wait", "answer", "end"])
        if stage == "connect":
            return
        if stage == "request":
            writer.write(raw[: chance.randrange(len(raw))])
            return
        writer.write(raw)
        if stage == "wait":
            await asyncio.sleep(chance.random() * 0.02)
        elif stage == "answer":
            await reader.read(chance.randrange(1, 900))
        else:
            await reader.read()
    except ConnectionError:
        pass
    finally:
        if chance.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()


async def test_in_flight_returns_to_zero_after_hundreds_of_aborts_at_every_stage(start_gateway: StartGateway) -> None:
    chance = random.Random(7)
    async with Engine(moody) as one, Engine(moody) as two:
        dead = f"http://127.0.0.1:{free_port()}"
        gateway = await start_gateway(make_snapshot(make_deployment(one.url, two.url, dead)))
        for _ in range(12):
            await asyncio.gather(*[one_of_many(gateway, chance) for _ in range(50)])
        await gateway.until_idle()
        pools = gateway.process.snapshots.routes
        assert pools is not None
        assert not any(pool.busy for pool in pools.pools.values())
    assert gateway.process.gates.in_flight() == {}
    assert min(len(one.requests), len(two.requests)) > 10, "a replica that fails rests"
